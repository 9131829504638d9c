/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree test`: becomes the harness, a program in Python (python/homefree/harness).
 *
 * Owns: the options, their help, the messages about wrong usage, and which Python runs the harness.
 * The options are handed on as they are. Nothing stays between the caller and the harness. One
 * thread.
 */
#include "loader/command/arguments.h"
#include "loader/command/program/preload.h"
#include "loader/command/test/python_program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char who[] = "homefree test";

/* What the Python runs. The words are valid in every version of Python. */
static char start[] =
    "import sys\n"
    "if sys.version_info < (3, 9) or sys.implementation.name != 'cpython':\n"
    "    sys.stderr.write('homefree test: %s is not CPython 3.9 or later; name another Python with "
    "--python\\n' % sys.executable)\n"
    "    sys.exit(3)\n"
    "try:\n"
    "    from homefree.harness._main import main\n"
    "except ImportError as error:\n"
    "    sys.stderr.write('homefree test: %s cannot import homefree: %s; install homefree there, "
    "or name another Python with --python\\n' % (sys.executable, error))\n"
    "    sys.exit(3)\n"
    "sys.exit(main(sys.argv[1:]))\n";

/* ---- the command line ----------------------------------------------------------------------- */

struct request {
    char *python;
    const char *script, *junit, *html, *only;
    bool json, list, all, pointers, interpreters;
};

/* A whole number from 1 on. */
static int take_count(void *request, const char *value)
{
    char *end;
    errno = 0;
    const long number = strtol(value, &end, 10);
    (void)request;
    if (end == value || *end != '\0' || errno != 0 || number < 1 || number > 1000000)
        return hf_command_wrong(who, "'%s' is not a number from 1 to 1000000", value);
    return HF_EXIT_CLEAN;
}

static int take_seconds(void *request, const char *value)
{
    char *end;
    const double number = strtod(value, &end);
    (void)request;
    if (end == value || *end != '\0' || !isfinite(number) || number <= 0 || number > 1e6)
        return hf_command_wrong(who, "'%s' is not a number of seconds", value);
    return HF_EXIT_CLEAN;
}

static int take_file(void *request, const char *value)
{
    (void)request;
    if (access(value, R_OK) != 0)
        return hf_command_wrong(who, "cannot read '%s': %s", value, strerror(errno));
    return HF_EXIT_CLEAN;
}

static const struct hf_argument arguments_table[] = {
    {.name = "script",
     .value = "FILE",
     .help = "a program in Python that uses MODULE, to learn from",
     .offset = offsetof(struct request, script)},
    {.name = "python",
     .value = "PROGRAM",
     .help = "the Python to use; the default is the one that runs\n"
             "'python -m homefree', or python3",
     .offset = offsetof(struct request, python)},
    {.name = "only",
     .value = "PATTERN",
     .help = "only cells whose 'crossing / condition / host' has a\n"
             "part that fits; '*' and '?' as in a shell",
     .offset = offsetof(struct request, only)},
    {.name = "list",
     .help = "print the cells and run none",
     .offset = offsetof(struct request, list)},
    {.name = "jobs",
     .letter = 'j',
     .value = "N",
     .help = "cells that run at a time; the default is the number of\n"
             "processors",
     .take = take_count},
    {.name = "timeout",
     .value = "SECONDS",
     .help = "how long a cell may take (10)",
     .take = take_seconds},
    {.name = "learn",
     .value = "SECONDS",
     .help = "how long to invent arguments (30)",
     .take = take_seconds},
    {.name = "limit", .value = "N", .help = "the most crossings to test (100)", .take = take_count},
    {.name = "beside",
     .value = "FILE",
     .help = "a shared object with an allocator of its own, to load\n"
             "beside MODULE; may be given several times",
     .take = take_file},
    {.name = "pointers",
     .help = "numbers that are addresses of live blocks are for the\n"
             "host to free",
     .offset = offsetof(struct request, pointers)},
    {.name = "interpreters",
     .help = "also between interpreters with GILs of their own: more\n"
             "conditions, with homefree",
     .offset = offsetof(struct request, interpreters)},
    {.name = "all",
     .help = "show every crossing's row, not only those with findings",
     .offset = offsetof(struct request, all)},
    {.name = "json", .help = "write a JSON document", .offset = offsetof(struct request, json)},
    {.name = "junit",
     .value = "FILE",
     .help = "write a JUnit file as well",
     .offset = offsetof(struct request, junit)},
    {.name = "html",
     .value = "FILE",
     .help = "write a page for browsers as well",
     .offset = offsetof(struct request, html)},
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree test [OPTION]... MODULE [--script FILE | -- COMMAND [ARGUMENT]...]\n",
    .about =
        "Proves that no memory that an extension module hands out or takes in can crash a host.\n"
        "MODULE is a module's name, or the path of its shared object. First learns what crosses\n"
        "the module's boundary: from COMMAND or FILE, which use it, or else from its callables\n"
        "with invented arguments. Then makes each object again and frees it in another thread,\n"
        "in a child, at exit and so on, with and without homefree and beside other allocators,\n"
        "each time in a process of its own.\n",
    .notes = "Exit status: 0 clean, 1 findings, 2 wrong usage, 3 failed.\n"
             "\n"
             "Example: homefree test mymodule -- python3 -m pytest tests\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_ANYWHERE,
};

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request, const struct hf_operand_list *operands)
{
    if (operands->count == 0)
        return hf_command_wrong(who, "no module is given");
    if (operands->values[0][0] == '\0' || operands->values[0][0] == '-')
        return hf_command_wrong(who, "'%s' is no module", operands->values[0]);
    if (operands->count > 1 && !operands->separated)
        return hf_command_wrong(who, "write '--' before the command '%s'", operands->values[1]);
    if (operands->count > 1 && request->script != NULL)
        return hf_command_wrong(who, "--script and a command exclude each other");
    if (request->script != NULL)
        return take_file(NULL, request->script) == HF_EXIT_CLEAN ? HF_EXIT_NONE : HF_EXIT_USAGE;
    return HF_EXIT_NONE;
}

/* ---- the harness ---------------------------------------------------------------------------- */

/* NULL after an error message. What `python -m homefree` names is a Python. */
static char *find_python(const struct request *request)
{
    char *python = hf_preload_python(request->python);
    if (request->python == NULL && python == getenv(HF_PYTHON_VARIABLE))
        return python;
    switch (hf_python_ask(python)) {
    case HF_PYTHON_YES:
        return python;
    case HF_PYTHON_NOT_RUN:
        hf_command_complain(who, "cannot run '%s': %s", python, strerror(errno));
        break;
    case HF_PYTHON_SILENT:
        hf_command_complain(who, "'%s' did not answer as a Python does within %d seconds", python,
                            HF_PYTHON_SECONDS);
        break;
    default:
        hf_command_complain(who, "'%s' is no Python; name one with --python", python);
    }
    return NULL;
}

/* Returns only after a failure, HF_EXIT_FAILED. `options` are the arguments before the operands. */
static int become(char *python, char **options, size_t option_count,
                  const struct hf_operand_list *operands)
{
    static char minus_c[] = "-c", separator[] = "--";
    char **line = calloc(option_count + operands->count + 6, sizeof *line);
    if (line == NULL)
        return hf_command_out_of_memory(who);
    size_t count = 0;
    line[count++] = python; /* by this name CPython finds its installation */
    line[count++] = minus_c;
    line[count++] = start;
    for (size_t i = 0; i < option_count; i++)
        line[count++] = options[i];
    line[count++] = operands->values[0];
    if (operands->count > 1)
        line[count++] = separator;
    for (size_t i = 1; i < operands->count; i++)
        line[count++] = operands->values[i];
    execvp(python, line);
    hf_command_complain(who, "cannot run '%s': %s", python, strerror(errno));
    free(line);
    return HF_EXIT_FAILED;
}

int hf_command_test(int count, char **arguments)
{
    struct request request = {.json = false};
    struct hf_operand_list operands;
    int result = hf_command_read(&command, &request, count, arguments, &operands);
    if (result == HF_EXIT_NONE)
        result = check(&request, &operands);
    if (result != HF_EXIT_NONE)
        return result;
    const size_t before = (size_t)(operands.values - arguments) - (operands.separated ? 1 : 0);
    char *python = find_python(&request);
    return python != NULL ? become(python, arguments + 1, before - 1, &operands) : HF_EXIT_FAILED;
}
