/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See memory_blocks.h. The numbers come from a process that may lie: their sums may wrap around,
 * and so many blocks are listed at most.
 *
 * Python makes the table. The list of blocks, a million for a large process, would take it ten
 * times as long, so it gets the list's lines in front of the document's.
 */
#include "loader/command/memory/memory_blocks.h"

#include "loader/command/command.h"
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/json.h"
#include "loader/command/program/python.h"

#include <inttypes.h>

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

int hf_memory_blocks(const char *who, const struct hf_live_process *process, bool each,
                     const char *output, int *document)
{
    static struct showing showing;
    showing = (struct showing){.process = process, .as_json = output != NULL, .each = each};
    const int status = output != NULL ? hf_command_compose(who, output, compose, &showing)
                                      : hf_python_document(who, compose, &showing, document);
    if (showing.why == NULL)
        return status;
    hf_command_complain(who, "cannot read the heap of process %d: %s", (int)process->pid,
                        showing.why);
    return HF_EXIT_FAILED;
}
