/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree test`: becomes the harness, a program in Python (python/homefree/harness).
 *
 * Owns: the options, their help, the messages about wrong usage, and which Python runs the harness.
 * Nothing stays between the caller and the harness. One
 * thread.
 */
#include "loader/command/program/preload.h"
#include "loader/command/program/python.h"
#include "loader/command/test/registry_test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
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
    const char *script, *junit, *html, *only, *jobs, *timeout, *learn, *limit, *registry;
    bool json, list, all, pointers, interpreters;
    const char **beside; /* with room for all arguments */
    size_t beside_count;
};

static int check_readable(const char *path)
{
    return path == NULL || access(path, R_OK) == 0
               ? HF_EXIT_CLEAN
               : hf_command_wrong(who, "cannot read '%s': %s", path, strerror(errno));
}

static int take_beside(void *context, const char *value)
{
    struct request *request = context;
    request->beside[request->beside_count++] = value;
    return check_readable(value);
}

static const struct hf_argument arguments_table[] = {
    HF_VALUE_ARGUMENT("script", script, "FILE",
                      "a program in Python that uses MODULE, to learn from"),
    HF_VALUE_ARGUMENT("python", python, "PROGRAM",
                      "the Python to use; the default is the one that runs\n"
                      "'python -m homefree', or python3"),
    HF_VALUE_ARGUMENT("only", only, "PATTERN",
                      "only cells whose 'crossing / condition / host' has a\n"
                      "part that fits; '*' and '?' as in a shell"),
    HF_FLAG_ARGUMENT("list", list, "print the cells and run none"),
    {.name = "jobs",
     .letter = 'j',
     .value = "N",
     .help = "cells that run at a time; the default is the number of\n"
             "processors",
     .offset = offsetof(struct request, jobs)},
    HF_VALUE_ARGUMENT("timeout", timeout, "SECONDS", "how long a cell may take (10)"),
    HF_VALUE_ARGUMENT("learn", learn, "SECONDS", "how long to invent arguments (30)"),
    HF_VALUE_ARGUMENT("limit", limit, "N", "the most crossings to test (100)"),
    {.name = "beside",
     .value = "FILE",
     .help = "a shared object with an allocator of its own, to load\n"
             "beside MODULE; may be given several times",
     .take = take_beside},
    HF_FLAG_ARGUMENT("pointers", pointers,
                     "numbers that are addresses of live blocks are for the\n"
                     "host to free"),
    HF_FLAG_ARGUMENT("interpreters", interpreters,
                     "also between interpreters with GILs of their own: more\n"
                     "conditions, with homefree"),
    HF_VALUE_ARGUMENT("registry", registry, "FILE",
                      "instead of a module, test whether the allocators that this\n"
                      "shared object publishes keep the registry's duties"),
    HF_FLAG_ARGUMENT("all", all, "show every crossing's row, not only those with findings"),
    HF_FLAG_ARGUMENT("json", json, "write a JSON document"),
    HF_VALUE_ARGUMENT("junit", junit, "FILE", "write a JUnit file as well"),
    HF_VALUE_ARGUMENT("html", html, "FILE", "write a page for browsers as well"),
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree test [OPTION]... MODULE [--script FILE | -- COMMAND [ARGUMENT]...]\n"
             "       homefree test [--json] [--only CHECK] [--timeout SECONDS] --registry FILE\n",
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

/* A whole number from 1 on; NULL is one. */
static int check_count(const char *value)
{
    char *end;
    errno = 0;
    const long number = value != NULL ? strtol(value, &end, 10) : 1;
    if (value != NULL &&
        (end == value || *end != '\0' || errno != 0 || number < 1 || number > 1000000))
        return hf_command_wrong(who, "'%s' is not a number from 1 to 1000000", value);
    return HF_EXIT_CLEAN;
}

static int check_seconds(const char *value)
{
    char *end;
    const double number = value != NULL ? strtod(value, &end) : 1;
    if (value != NULL && (end == value || *end != '\0' || strpbrk(value, "xX") != NULL ||
                          !isfinite(number) || number <= 0 || number > 1e6))
        return hf_command_wrong(who, "'%s' is not a number of seconds", value);
    return HF_EXIT_CLEAN;
}

static bool goes_with_registry(const struct request *request)
{
    return request->script == NULL && request->python == NULL && request->jobs == NULL &&
           request->learn == NULL && request->limit == NULL && request->beside_count == 0 &&
           request->junit == NULL && request->html == NULL && !request->list && !request->all &&
           !request->pointers && !request->interpreters;
}

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request, const struct hf_operand_list *operands)
{
    if (check_count(request->jobs) != HF_EXIT_CLEAN ||
        check_seconds(request->timeout) != HF_EXIT_CLEAN ||
        check_seconds(request->learn) != HF_EXIT_CLEAN ||
        check_count(request->limit) != HF_EXIT_CLEAN)
        return HF_EXIT_USAGE;
    if (request->registry != NULL && operands->count != 0)
        return hf_command_wrong(who, "--registry and a module exclude each other");
    if (request->registry != NULL)
        return goes_with_registry(request)
                   ? HF_EXIT_NONE
                   : hf_command_wrong(who, "--registry takes --only, --timeout and --json alone");
    if (operands->count == 0)
        return hf_command_wrong(who, "no module is given");
    if (operands->values[0][0] == '\0' || operands->values[0][0] == '-')
        return hf_command_wrong(who, "'%s' is no module", operands->values[0]);
    if (operands->count > 1 && !operands->separated)
        return hf_command_wrong(who, "write '--' before the command '%s'", operands->values[1]);
    if (operands->count > 1 && request->script != NULL)
        return hf_command_wrong(who, "--script and a command exclude each other");
    return check_readable(request->script) == HF_EXIT_CLEAN ? HF_EXIT_NONE : HF_EXIT_USAGE;
}

/* ---- whether a program is a Python ---------------------------------------------------------- */

/* Asked before it becomes the harness, because any other program that ends with status 0 would look
 * like a module without findings. */
enum python_answer {
    PYTHON_YES,
    PYTHON_NO,      /* it printed something else, or nothing */
    PYTHON_SILENT,  /* it took longer than PYTHON_SECONDS */
    PYTHON_NOT_RUN, /* errno says why */
};
enum { PYTHON_SECONDS = 30 };

/* Its result is not in the text, which other programs may print. Valid in every version of Python.
 */
static char question[] = "import sys; sys.stdout.write('homefree' * 3 + ' %d\\n' % (6 * 7))";
static const char answer[] = "homefreehomefreehomefree 42\n";

enum { ROOM = 65536 }; /* of a wrapper that has something to say first */

static long now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* In a process group of its own, which can be ended as a whole. Returns 0 or an errno. */
static int start_asking(const char *program, int output, pid_t *child)
{
    static char no_site[] = "-S", no_environment[] = "-E", minus_c[] = "-c";
    char *const words[] = {
        (char *)(unsigned long)program, no_site, no_environment, minus_c, question, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (error == 0)
        error = posix_spawnp(child, program, &files, &attributes, words, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    return error;
}

static enum python_answer read_answer(int input)
{
    static char text[ROOM];
    const size_t wanted = sizeof answer - 1;
    size_t length = 0;
    const long end = now() + PYTHON_SECONDS * 1000L;
    while (length < ROOM) {
        const long left = end - now();
        struct pollfd ready = {.fd = input, .events = POLLIN};
        if (left <= 0)
            return PYTHON_SILENT;
        const int count = poll(&ready, 1, (int)left);
        if (count < 0 && errno != EINTR)
            return PYTHON_NO;
        if (count <= 0)
            continue;
        const ssize_t size = read(input, text + length, ROOM - length);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            break;
        length += (size_t)size;
        if (length >= wanted && memcmp(text + length - wanted, answer, wanted) == 0)
            return PYTHON_YES;
    }
    return PYTHON_NO;
}

/* Runs the program, found as execvp(3) does, with a sum for Python; ends it if it goes on. */
static enum python_answer ask(const char *program)
{
    int channel[2];
    pid_t child;
    if (pipe2(channel, O_CLOEXEC) != 0)
        return PYTHON_NOT_RUN;
    const int error = start_asking(program, channel[1], &child);
    (void)close(channel[1]);
    if (error != 0) {
        (void)close(channel[0]);
        errno = error;
        return PYTHON_NOT_RUN;
    }
    const enum python_answer result = read_answer(channel[0]);
    (void)close(channel[0]);
    (void)kill(-child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return result;
}

/* ---- the harness ---------------------------------------------------------------------------- */

/* NULL after an error message. What `python -m homefree` names is a Python. */
static char *find_python(const struct request *request)
{
    char *python = hf_preload_python(request->python);
    if (request->python == NULL && python == getenv(HF_PYTHON_VARIABLE))
        return python;
    switch (ask(python)) {
    case PYTHON_YES:
        return python;
    case PYTHON_NOT_RUN:
        hf_command_complain(who, "cannot run '%s': %s", python, strerror(errno));
        break;
    case PYTHON_SILENT:
        hf_command_complain(who, "'%s' did not answer as a Python does within %d seconds", python,
                            PYTHON_SECONDS);
        break;
    default:
        hf_command_complain(who, "'%s' is no Python; name one with --python", python);
    }
    return NULL;
}

/* Adds the words for python/homefree/harness/_options.py. */
static void add_words(struct hf_words *words, const struct request *request,
                      const struct hf_operand_list *operands)
{
    hf_words_add_options(words, arguments_table, request);
    for (size_t i = 0; i < request->beside_count; i++)
        hf_words_add(words, "beside", request->beside[i]);
    hf_words_add(words, "module", operands->values[0]);
    for (size_t i = 1; i < operands->count; i++)
        hf_words_add(words, "command", operands->values[i]);
}

/* Returns only after a failure, HF_EXIT_FAILED. */
static int become(char *python, const struct hf_words *words)
{
    static char minus_c[] = "-c";
    enum { FIRST = 3 };
    char **line = calloc(FIRST + words->count + 1, sizeof *line);
    if (line == NULL)
        return hf_command_out_of_memory(who);
    line[0] = python; /* by this name CPython finds its installation */
    line[1] = minus_c;
    line[2] = start;
    memcpy(line + FIRST, words->values, words->count * sizeof *line);
    execvp(python, line);
    hf_command_complain(who, "cannot run '%s': %s", python, strerror(errno));
    free(line);
    return HF_EXIT_FAILED;
}

int hf_command_test(int count, char **arguments)
{
    struct hf_keep keep = {.last = NULL};
    struct hf_words words = {.keep = &keep};
    struct request request = {.beside = hf_keep_bytes(&keep, (size_t)count * sizeof(char *))};
    struct hf_operand_list operands;
    int result = hf_command_read(&command, &request, count, arguments, &operands);
    if (result == HF_EXIT_NONE)
        result = check(&request, &operands);
    if (result == HF_EXIT_NONE && request.registry != NULL) {
        const struct hf_registry_request registry = {
            .file = request.registry,
            .only = request.only,
            .seconds = request.timeout != NULL ? (unsigned)ceil(strtod(request.timeout, NULL)) : 30,
            .json = request.json,
        };
        result = hf_registry_test(&registry);
    } else if (result == HF_EXIT_NONE) {
        char *python = find_python(&request);
        add_words(&words, &request, &operands);
        result = python != NULL ? become(python, &words) : HF_EXIT_FAILED;
    }
    hf_keep_release(&keep);
    return result;
}
