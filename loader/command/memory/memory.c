/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree memory`: the command line. Python looks at the process and shows what it sees
 * (python/homefree/command/memory.py); what lies in homefree's heap it learns from this command,
 * with --blocks.
 *
 * Owns: the options and the messages about wrong usage. One thread.
 */
#include "loader/command/memory/memory_blocks.h"
#include "loader/command/program/python.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char who[] = "homefree memory";
static const char instead[] = "use --blocks --json, which needs no Python";

struct request {
    bool json, openmetrics, watch, blocks, all;
    const char *html, *pprof, *diff, *pid;
};

static const struct hf_argument arguments_table[] = {
    HF_VALUE_ARGUMENT("pid", pid, "PID",
                      "look at a running process, which is neither stopped nor asked"),
    HF_JSON_ARGUMENT("print a JSON document instead of the table"),
    HF_VALUE_ARGUMENT("html", html, "FILE", "write a page for a browser, which needs no network"),
    HF_VALUE_ARGUMENT("pprof", pprof, "FILE", "write a profile that pprof reads"),
    HF_FLAG_ARGUMENT("openmetrics", openmetrics, "print metrics that Prometheus reads"),
    HF_VALUE_ARGUMENT("diff", diff, "SECONDS",
                      "look twice, and show what grew in between; also 5m, 1h"),
    HF_FLAG_ARGUMENT("watch", watch, "show the table again every second, until it is ended"),
    HF_FLAG_ARGUMENT("blocks", blocks,
                     "show the blocks of homefree's heap by size instead; with\n"
                     "--all, every block"),
    HF_FLAG_ARGUMENT("all", all, "show every row, not only those that matter"),
    {.name = NULL},
};

static const struct hf_command command = {
    .who = who,
    .usage = "homefree memory [--all] [--json | --openmetrics] [--html FILE] [--pprof FILE]\n"
             "                       [--diff SECONDS | --watch] --pid PID\n"
             "       homefree memory [OPTION]... -- COMMAND [ARGUMENT]...\n"
             "       homefree memory --blocks [--all] [--json] --pid PID\n",
    .about = "Shows whose a process's resident memory is: each allocator's, each file's, threads'\n"
             "stacks. The process need not have homefree in it. With COMMAND, runs it and shows\n"
             "its memory where that was largest.\n",
    .notes = "Exit status: 0 done, 1 COMMAND failed, 2 wrong usage, 3 failed.\n"
             "\n"
             "Example: homefree memory --pid $(pidof -s gunicorn)\n",
    .arguments = arguments_table,
    .operands = HF_OPERANDS_LAST,
};

/* "60", "60s", "1.5m", "1h". */
static bool is_time(const char *text)
{
    char *end;
    errno = 0;
    const double number = strtod(text, &end);
    return end != text && errno == 0 && isfinite(number) && number > 0 && number <= 1e6 &&
           strpbrk(text, "xXpP") == NULL &&
           (*end == '\0' || (strchr("smh", *end) != NULL && end[1] == '\0'));
}

static bool is_stdout(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

/* Returns HF_EXIT_NONE, or HF_EXIT_USAGE after an error message. */
static int check(const struct request *request, const struct hf_operand_list *operands)
{
    const bool files = request->html != NULL || request->pprof != NULL;
    if ((request->pid != NULL) == (operands->count > 0))
        return hf_command_wrong(who, "give a process with --pid, or a command after '--'");
    if (operands->count > 0 && operands->values[0][0] == '\0')
        return hf_command_wrong(who, "the command is empty");
    if (request->blocks && (files || request->openmetrics || request->watch ||
                            request->diff != NULL || request->pid == NULL))
        return hf_command_wrong(who, "--blocks goes with --pid, --all and --json alone");
    if (request->diff != NULL && !is_time(request->diff))
        return hf_command_wrong(who, "'%s' is not a time, such as 60s, 5m or 1h", request->diff);
    if (request->watch && (files || request->json || request->openmetrics || request->diff != NULL))
        return hf_command_wrong(who, "--watch goes with --all alone");
    if (request->diff != NULL && (files || request->openmetrics || operands->count > 0))
        return hf_command_wrong(who, "--diff goes with --pid, --all and --json alone");
    if (request->json + request->openmetrics + is_stdout(request->html) +
            is_stdout(request->pprof) >
        1)
        return hf_command_wrong(who, "only one result can go to stdout");
    return HF_EXIT_NONE;
}

/* Shows the heap's blocks. */
static int show_blocks(const struct request *request, struct hf_words *words)
{
    struct hf_live_process process;
    int document = -1;
    int status = hf_live_open(who, request->pid, &process);
    if (status != HF_EXIT_NONE)
        return status;
    status = hf_memory_blocks(who, &process, request->all, request->json ? "-" : NULL, &document);
    hf_live_close(&process);
    if (status != HF_EXIT_CLEAN || request->json)
        return status;
    hf_words_add(words, "document", hf_keep_format(words->keep, "%d", document));
    return hf_python_become(who, "memory_blocks", words, instead);
}

/* Python asks this command about the heap. */
static int show_memory(const struct request *request, const struct hf_operand_list *operands,
                       struct hf_words *words)
{
    struct hf_live_process process;
    /* What is no process is told before Python starts. */
    const int status =
        request->pid != NULL ? hf_live_open(who, request->pid, &process) : HF_EXIT_NONE;
    if (status != HF_EXIT_NONE)
        return status;
    if (request->pid != NULL)
        hf_live_close(&process);
    hf_words_add_options(words, arguments_table, request);
    for (size_t i = 0; i < operands->count; i++)
        hf_words_add(words, "command", operands->values[i]);
    return hf_python_become(who, "memory", words, instead);
}

int hf_command_memory(int count, char **arguments)
{
    struct request request = {.json = false};
    struct hf_operand_list operands;
    int result = hf_command_read(&command, &request, count, arguments, &operands);
    if (result == HF_EXIT_NONE)
        result = check(&request, &operands);
    if (result != HF_EXIT_NONE)
        return result;
    struct hf_keep keep = {.last = NULL};
    struct hf_words words = {.keep = &keep};
    result =
        request.blocks ? show_blocks(&request, &words) : show_memory(&request, &operands, &words);
    hf_keep_release(&keep);
    return result;
}
