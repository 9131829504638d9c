/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree run`: becomes a program whose whole process allocates from the heap.
 *
 * Owns: the options, the order of the checks, and the environment that the program gets. Nothing
 * stays between the caller and the program: it has this process's number, descriptors, signal
 * dispositions and signal mask, and its end is seen by the caller alone. One thread.
 */
#include "alloc/base/options.h"
#include "alloc/diagnose/report_format.h"
#include "loader/adopt/start_copies.h"
#include "loader/command/arguments.h"
#include "loader/command/program/preload.h"
#include "loader/command/program/program.h"
#include "loader/command/run/run_adopt.h"
#include "loader/command/run/run_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char who[] = "homefree run";

#define PRELOAD  "libhomefree-preload.so"
#define DIAGNOSE "libhomefree-diagnose.so"
#define EXPLAIN  "libhomefree-explain.so"

/* What the library takes the place of. The last would be a second copy of the heap. */
static const char *const own_libraries[] = {PRELOAD, DIAGNOSE, EXPLAIN, HF_PRELOAD_LIBRARY, NULL};
enum { SAMPLE_MAX = 1 << 30 }; /* sampling.h's */

static const char *const modes[] = {"report", "count", "strict", NULL}; /* the default first */

/* ---- the command line ----------------------------------------------------------------------- */

struct request {
    struct hf_run_diagnosis diagnosis; /* its mode is NULL without --diagnose */
    bool bare;                         /* --diagnose without a value */
    const char *adopt;                 /* what is adopted: HOMEFREE_CONF's words; or NULL */
    bool explain;                      /* no heap */
};

static const char *find_mode(const char *value)
{
    size_t at = 0;
    while (modes[at] != NULL && strcmp(modes[at], value) != 0)
        at++;
    return modes[at];
}

static int take_diagnose(void *context, const char *value)
{
    struct request *request = context;
    request->bare = value == NULL;
    request->diagnosis.mode = request->bare ? modes[0] : find_mode(value);
    if (request->diagnosis.mode != NULL)
        return HF_EXIT_CLEAN;
    return hf_command_wrong(who, "--diagnose takes 'count', 'report' or 'strict', not '%s'", value);
}

static int take_adopt(void *context, const char *value)
{
    struct request *request = context;
    request->adopt = value != NULL ? value : "all";
    if (strchr(request->adopt, ',') != NULL)
        return hf_command_wrong(who, "--adopt takes patterns separated by colons; for a comma in a "
                                     "file's name, write '?'");
    if (strlen(request->adopt) >= HF_PATTERNS_MAX)
        return hf_command_wrong(who, "--adopt takes at most %d characters", HF_PATTERNS_MAX - 1);
    if (value == NULL || strcmp(value, "all") == 0 || value[strcspn(value, "./*?[")] != '\0')
        return HF_EXIT_CLEAN;
    return hf_command_wrong(who,
                            "--adopt takes patterns of files, such as 'libarrow.so*' or "
                            "'*/vendor/*', not '%s'",
                            value);
}

static int take_sample(void *context, const char *value)
{
    struct request *request = context;
    char *end;
    errno = 0;
    const unsigned long every = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || every > SAMPLE_MAX)
        return hf_command_wrong(who, "--sample takes a number up to %d, not '%s'", SAMPLE_MAX,
                                value);
    request->diagnosis.sample = value;
    return HF_EXIT_CLEAN;
}

static const struct hf_argument arguments_table[] = {
    {.name = "diagnose",
     .value = "count|report|strict",
     .optional = true,
     .help = "record who allocates and who frees: count pairs of\n"
             "objects, report every fault and go on (the default),\n"
             "or stop at the first fault",
     .take = take_diagnose},
    {.name = "adopt",
     .value = "PATTERNS",
     .optional = true,
     .help = "load libraries with an allocator inside from copies\n"
             "in which the heap replaces it, where it can; only\n"
             "files that the patterns match, if there are any",
     .take = take_adopt},
    HF_FLAG_ARGUMENT("explain", explain,
                     "leave the program's allocators alone; if it crashes,\n"
                     "say whose the pointer was, and who freed it"),
    HF_VALUE_ARGUMENT("report", diagnosis.report, "PATH",
                      "directory for the report; made if it is missing. The\n"
                      "default is a new homefree-report.PID here"),
    HF_VALUE_ARGUMENT("sites", diagnosis.sites, "PATH",
                      "an earlier report: take full stacks where the blocks\n"
                      "of its faults were allocated"),
    HF_VALUE_ARGUMENT("suppressions", diagnosis.suppressions, "FILE",
                      "patterns of findings to leave out"),
    {.name = "sample",
     .value = "N",
     .help = "put one allocation in N behind a guard page, to find\n"
             "accesses to freed memory and past the end of a\n"
             "block; 0: none. Each costs about 10 us. The default\n"
             "is 4096, and at most some hundred a second",
     .take = take_sample},
    HF_FLAG_ARGUMENT("leaks", diagnosis.leaks,
                     "look for leaks across objects when a process exits"),
    HF_FLAG_ARGUMENT("quiet", diagnosis.quiet,
                     "print neither where the report will be nor, when a\n"
                     "process ends, what was found"),
    {.name = NULL},
};

/* Prints words, filling lines from column 4 on. */
static void print_filled(FILE *out, const char *text)
{
    enum { INDENT = 4, WIDTH = 78 };
    size_t column = 0;
    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        const size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%*s%.*s", column > 0 ? 1 : INDENT, "", (int)length, text);
        text += length;
    }
    fputc('\n', out);
}

static void print_options(FILE *out)
{
    const struct hf_option_row *row;
    fputs("Options of the heap, in the environment variable HOMEFREE_CONF as key:value pairs,\n"
          "separated by commas, with their defaults:\n",
          out);
    for (size_t i = 0; (row = hf_option_row(i)) != NULL; i++) {
        char preset[32];
        hf_option_preset(row, preset, sizeof preset);
        fprintf(out, "  %s:%s (%s)\n", row->name, preset, row->unit);
        print_filled(out, row->help);
    }
}

static const struct hf_command command = {
    .who = who,
    .usage = "homefree run [--adopt[=PATTERNS]] [--diagnose[=count|report|strict]]\n"
             "                    [--report PATH] [--sites PATH] [--suppressions FILE]\n"
             "                    [--sample N] [--leaks] [--quiet] [--] COMMAND [ARGUMENT]...\n"
             "       homefree run --explain [--] COMMAND [ARGUMENT]...\n",
    .about = "Becomes COMMAND, with a library preloaded that gives the whole process and the\n"
             "processes that it starts one heap, so that every free goes home to its owner. With\n"
             "--diagnose, that library also records which object allocated and which freed.\n",
    .notes = "count says how many blocks each object allocated and which object freed them, and\n"
             "reports no fault. Like the other modes it does not carry out a free that would\n"
             "damage the heap.\n"
             "\n"
             "Exit status: that of COMMAND. 2 wrong usage and 3 failed, if it was not run.\n"
             "\n"
             "Example: homefree run --diagnose -- python3 app.py\n",
    .table = print_options,
    .arguments = arguments_table,
    .operands = HF_OPERANDS_LAST,
};

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request, const struct hf_operand_list *operands)
{
    const struct hf_run_diagnosis *diagnosis = &request->diagnosis;
    const char *alone = diagnosis->report != NULL         ? "report"
                        : diagnosis->sites != NULL        ? "sites"
                        : diagnosis->suppressions != NULL ? "suppressions"
                        : diagnosis->sample != NULL       ? "sample"
                        : diagnosis->leaks                ? "leaks"
                        : diagnosis->quiet                ? "quiet"
                                                          : NULL;
    if (diagnosis->mode == NULL && alone != NULL)
        return hf_command_wrong(who, "--%s goes with --diagnose", alone);
    if (request->explain && (diagnosis->mode != NULL || request->adopt != NULL))
        return hf_command_wrong(who, "--explain goes with no other option");
    if (operands->count == 0)
        return hf_command_wrong(who, operands->separated ? "'--' is followed by no command"
                                                         : "no command is given");
    if (operands->values[0][0] == '\0')
        return hf_command_wrong(who, "the command is empty");
    if (request->bare && !operands->separated && operands->count > 1 &&
        find_mode(operands->values[0]) != NULL && strcmp(operands->values[1], "--") == 0)
        return hf_command_wrong(who, "write '--diagnose=%s', without a space", operands->values[0]);
    return HF_EXIT_NONE;
}

/* ---- the program ---------------------------------------------------------------------------- */

/* Finds the library to preload. Returns NULL after an error message. */
static char *find_library(const char *name)
{
    char *library = hf_preload_find(name);
    if (library == NULL) {
        hf_command_complain(who,
                            "cannot find %s in the installation of this command; install "
                            "homefree again",
                            name);
        return NULL;
    }
    const char *obstacle = hf_preload_obstacle(library);
    if (obstacle == NULL)
        return library;
    hf_command_complain(who,
                        "cannot preload '%s': LD_PRELOAD cannot express a path with %s; "
                        "install homefree in another directory",
                        library, obstacle);
    free(library);
    return NULL;
}

static int examine(const char *name, const struct request *request, struct hf_program *program)
{
    hf_program_examine(name, program);
    if (program->verdict != HF_PROGRAM_FITS) {
        hf_command_complain(who, "cannot run '%s'%s: %s", name,
                            program->verdict == HF_PROGRAM_UNFIT ? " on the heap" : "",
                            program->why);
        return HF_EXIT_FAILED;
    }
    if (program->own_malloc && !request->explain)
        hf_command_complain(who,
                            "'%s' exports a malloc of its own, which serves its allocations "
                            "instead of the heap%s",
                            name, request->adopt != NULL ? "; nothing is adopted" : "");
    return HF_EXIT_CLEAN;
}

/* The value of LD_PRELOAD: the library, what was there, and `last` unless it is NULL. */
static char *compose_preload(const char *library, const char *last)
{
    char *preload = hf_preload_before(library, getenv("LD_PRELOAD"), own_libraries), *both = NULL;
    if (last == NULL || preload == NULL)
        return preload;
    if (asprintf(&both, "%s:%s", preload, last) < 0)
        both = NULL;
    free(preload);
    return both;
}

/* Tells the library who explains. */
static int name_command(void)
{
    char *self = hf_preload_self();
    const bool set = self != NULL && setenv("HOMEFREE_EXPLAIN", self, 1) == 0;
    free(self);
    return set ? HF_EXIT_CLEAN : hf_command_out_of_memory(who);
}

/* Returns only after a failure, HF_EXIT_FAILED. `copies`: adopted ones, which libhomefree takes out
 * of LD_PRELOAD again (loader/adopt/start_copies.h), or NULL. */
static int become(const char *path, char **arguments, const char *library, const char *diagnosis,
                  const char *copies)
{
    char *preload = compose_preload(library, copies);
    const bool set = preload != NULL && setenv("LD_PRELOAD", preload, 1) == 0 &&
                     (copies == NULL || setenv(HF_START_COPIES_VARIABLE, copies, 1) == 0) &&
                     (diagnosis == NULL || setenv(HF_DIAGNOSE_VARIABLE, diagnosis, 1) == 0) &&
                     unsetenv(HF_PYTHON_VARIABLE) == 0;
    free(preload);
    if (!set)
        return hf_command_out_of_memory(who);
    execv(path, arguments);
    hf_command_complain(who, "cannot run '%s': %s", arguments[0], strerror(errno));
    return HF_EXIT_FAILED;
}

static int run(const struct request *request, char **arguments)
{
    static struct hf_program program;
    const struct hf_run_diagnosis *diagnosis = &request->diagnosis;
    const char *adopt = request->adopt;
    struct hf_run_directory directory = {.path = NULL};
    char *value = NULL, *copies = NULL;
    char *library = find_library(request->explain          ? EXPLAIN
                                 : diagnosis->mode != NULL ? DIAGNOSE
                                                           : PRELOAD);
    int result = library != NULL ? examine(arguments[0], request, &program) : HF_EXIT_FAILED;
    if (result == HF_EXIT_CLEAN && request->explain)
        result = name_command();
    if (result == HF_EXIT_CLEAN && diagnosis->mode != NULL) {
        result = hf_run_prepare(who, diagnosis, &directory, &value);
        if (result == HF_EXIT_CLEAN && !diagnosis->quiet)
            hf_command_complain(who, "the report will be in '%s'", directory.path);
    }
    if (result == HF_EXIT_CLEAN && adopt != NULL && !program.own_malloc)
        copies = hf_run_adopt_needed(who, adopt, program.path);
    if (result == HF_EXIT_CLEAN)
        result = become(program.path, arguments, library, value, copies);
    hf_run_directory_end(&directory);
    free(copies);
    free(value);
    free(library);
    return result;
}

int hf_command_run_program(int count, char **arguments)
{
    struct request request = {.bare = false};
    struct hf_operand_list operands;
    int result = hf_command_read(&command, &request, count, arguments, &operands);
    if (result == HF_EXIT_NONE)
        result = check(&request, &operands);
    if (result == HF_EXIT_NONE && request.adopt != NULL &&
        hf_run_select(who, request.adopt) != HF_EXIT_CLEAN)
        return HF_EXIT_FAILED;
    return result != HF_EXIT_NONE ? result : run(&request, operands.values);
}
