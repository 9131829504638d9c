/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `homefree memory`: the command line. Python looks at the process and shows what it sees
 * (python/homefree/command/memory.py); what lies in homefree's heap it learns from this command,
 * with --blocks.
 *
 * What lies there comes from a process that may lie: sums may wrap around, and so many blocks are
 * listed at most. The list of blocks, a million for a large process, would take Python ten times as
 * long, so it gets the list's lines in front of the document's.
 *
 * Owns: the options and the messages about wrong usage. One thread.
 */
#include "loader/command/command.h"
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/json.h"
#include "loader/command/program/python.h"

#include <errno.h>
#include <inttypes.h>
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
/* ---- the heap's blocks ---- */

enum { LISTED_MOST = 1 << 22, FORMAT = 1, STACKS = 4096 };

struct showing {
    const struct hf_live_process *process;
    bool as_json, each;
    FILE *out;
    struct hf_json json;
    size_t listed;
    struct hf_live_heap heap;
    uint64_t told[STACKS];
    const char *why;
};

/* An estimate, as a number. */
static uint64_t whole(double estimate)
{
    return estimate > 0 && estimate < (double)INT64_MAX ? (uint64_t)estimate : 0;
}

/* Bytes in live blocks, and of everything that holds blocks. */
struct sums {
    uint64_t blocks, live, bytes;
};

static struct sums sum_up(const struct hf_live_heap *heap)
{
    struct sums sums = {heap->large_live, heap->large_live_bytes,
                        heap->large_live_bytes + heap->large_free_bytes};
    for (size_t i = 0; i < heap->count; i++) {
        sums.blocks += heap->classes[i].live;
        sums.live += heap->classes[i].live * heap->classes[i].size;
        sums.bytes += heap->classes[i].bytes;
    }
    return sums;
}

/* Pages come first. */
static void end_pages(struct showing *showing)
{
    hf_json_close(&showing->json);
    if (showing->each)
        hf_json_array(&showing->json, "blocks");
}

static void list(void *context, const struct hf_live_block *block)
{
    struct showing *showing = context;
    if (showing->as_json && showing->listed == 0)
        end_pages(showing);
    if (showing->listed++ >= LISTED_MOST)
        return;
    if (!showing->as_json) {
        fprintf(showing->out, "0x%012" PRIx64 " %12" PRIu64 " %s %s\n", block->address, block->size,
                block->large ? "large" : "small", block->live ? "live" : "free");
        return;
    }
    hf_json_object(&showing->json, NULL);
    hf_json_unsigned(&showing->json, "address", block->address);
    hf_json_unsigned(&showing->json, "size", block->size);
    hf_json_string(&showing->json, "kind", block->large ? "large" : "small");
    hf_json_boolean(&showing->json, "live", block->live);
    hf_json_close(&showing->json);
}

static void list_pages(void *context, const char *allocator, const char *object, uint64_t start,
                       uint64_t end)
{
    struct showing *showing = context;
    hf_json_object(&showing->json, NULL);
    hf_json_string(&showing->json, "allocator", allocator);
    hf_json_string(&showing->json, "object", object);
    hf_json_unsigned(&showing->json, "start", start);
    hf_json_unsigned(&showing->json, "end", end);
    hf_json_close(&showing->json);
}

/* The frames of a stack are told with its first sample; if two stacks are remembered at one place,
 * again. */
static void list_sample(void *context, const struct hf_live_sample *sample)
{
    struct showing *showing = context;
    struct hf_json *json = &showing->json;
    uint64_t *told = &showing->told[sample->stack % STACKS];
    hf_json_object(json, NULL);
    hf_json_unsigned(json, "stack", sample->stack);
    hf_json_unsigned(json, "bytes", whole(sample->weight_bytes));
    hf_json_unsigned(json, "thousandths", whole(1000 * sample->weight_blocks));
    if (sample->stack == 0 || *told != sample->stack) {
        hf_json_string(json, "object", sample->object);
        hf_json_array(json, "python");
        for (size_t i = 0; i < sample->python_count; i++) {
            hf_json_array(json, NULL);
            hf_json_string(json, NULL, sample->python[i].function);
            hf_json_string(json, NULL, sample->python[i].file);
            hf_json_unsigned(json, NULL, sample->python[i].line);
            hf_json_close(json);
        }
        hf_json_close(json);
        hf_json_array(json, "native");
        for (size_t i = 0; i < sample->frames_count; i++)
            hf_json_unsigned(json, NULL, sample->frames[i]);
        hf_json_close(json);
    }
    *told = sample->stack;
    hf_json_close(json);
}

static void write_profile(struct showing *showing)
{
    struct hf_live_profiled profiled;
    const char *why;
    hf_json_array(&showing->json, "samples");
    if (showing->as_json)
        (void)hf_doctor_live_profile(showing->process, list_sample, showing, &profiled, &why);
    hf_json_close(&showing->json);
}

static void write_json(struct showing *showing)
{
    const struct hf_live_heap *heap = &showing->heap;
    const struct sums sums = sum_up(heap);
    struct hf_json *json = &showing->json;
    hf_json_array(json, "classes");
    for (size_t i = 0; i < heap->count; i++) {
        const struct hf_live_class *class = &heap->classes[i];
        if (class->spans == 0)
            continue;
        hf_json_object(json, NULL);
        hf_json_unsigned(json, "size", class->size);
        hf_json_unsigned(json, "live", class->live);
        hf_json_unsigned(json, "free", class->free);
        hf_json_unsigned(json, "spans", class->spans);
        hf_json_unsigned(json, "bytes", class->bytes);
        hf_json_close(json);
    }
    hf_json_close(json);
    hf_json_object(json, "large");
    hf_json_unsigned(json, "live", heap->large_live);
    hf_json_unsigned(json, "live_bytes", heap->large_live_bytes);
    hf_json_unsigned(json, "free", heap->large_free);
    hf_json_unsigned(json, "free_bytes", heap->large_free_bytes);
    hf_json_close(json);
    hf_json_unsigned(json, "live", sums.blocks);
    hf_json_unsigned(json, "live_bytes", sums.live);
    hf_json_unsigned(json, "bytes", sums.bytes);
    hf_json_array(json, "region");
    hf_json_unsigned(json, NULL, heap->region);
    hf_json_unsigned(json, NULL, heap->region + heap->region_size);
    hf_json_close(json);
    write_profile(showing);
    hf_json_boolean(json, "complete", !heap->left_out && showing->listed <= LISTED_MOST);
    hf_json_finish(json);
}

static bool compose(FILE *out, void *context)
{
    struct showing *showing = context;
    showing->out = out;
    if (showing->as_json) {
        hf_json_begin(&showing->json, out, "heap", FORMAT);
        hf_json_unsigned(&showing->json, "pid", (uint64_t)showing->process->pid);
        hf_json_array(&showing->json, "pages");
    }
    if (!hf_doctor_live_heap(showing->process, showing->as_json ? list_pages : NULL,
                             showing->each ? list : NULL, showing, &showing->heap, &showing->why))
        return false;
    showing->why = NULL;
    if (showing->as_json && showing->listed == 0)
        end_pages(showing);
    if (showing->as_json && showing->each)
        hf_json_close(&showing->json);
    if (!showing->as_json)
        hf_json_begin_plain(&showing->json, out, true);
    write_json(showing);
    return true;
}

/* Writes the document to stdout, or for Python with every block as a line in front of it. */
static int show_blocks(const struct request *request, struct hf_words *words)
{
    struct hf_live_process process;
    int document = -1;
    int status = hf_live_open(who, request->pid, &process);
    if (status != HF_EXIT_NONE)
        return status;
    static struct showing showing;
    showing = (struct showing){.process = &process, .as_json = request->json, .each = request->all};
    status = request->json ? hf_command_compose(who, "-", compose, &showing)
                           : hf_python_document(who, compose, &showing, &document);
    if (showing.why != NULL) {
        hf_command_complain(who, "cannot read the heap of process %d: %s", (int)process.pid,
                            showing.why);
        status = HF_EXIT_FAILED;
    }
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
