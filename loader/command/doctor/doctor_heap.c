/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See doctor_heap.h. The numbers come from a process that may lie: their sums may wrap around, and
 * so many blocks are listed at most.
 *
 * Python makes the table. The list of blocks, a million for a large process, would take it ten
 * times as long, so it gets the list's lines in front of the document's.
 */
#include "loader/command/doctor/doctor_heap.h"

#include "loader/command/command.h"
#include "loader/command/doctor/doctor_live.h"
#include "loader/command/json.h"
#include "loader/command/program/python.h"

#include <inttypes.h>

enum { LISTED_MOST = 1 << 22, FORMAT = 1 };

struct showing {
    const struct hf_live_process *process;
    bool as_json, each;
    FILE *out;
    struct hf_json json;
    size_t listed;
    struct hf_live_heap heap;
    const char *why;
};

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

static void list(void *context, const struct hf_live_block *block)
{
    struct showing *showing = context;
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
    hf_json_boolean(json, "complete", !heap->left_out && showing->listed <= LISTED_MOST);
    hf_json_finish(json);
}

static bool compose(FILE *out, void *context)
{
    struct showing *showing = context;
    const bool with_blocks = showing->as_json && showing->each;
    showing->out = out;
    if (showing->as_json) {
        hf_json_begin(&showing->json, out, "heap", FORMAT);
        hf_json_unsigned(&showing->json, "pid", (uint64_t)showing->process->pid);
    }
    if (with_blocks)
        hf_json_array(&showing->json, "blocks");
    if (!hf_doctor_live_heap(showing->process, showing->each ? list : NULL, showing, &showing->heap,
                             &showing->why))
        return false;
    showing->why = NULL;
    if (with_blocks)
        hf_json_close(&showing->json);
    if (!showing->as_json)
        hf_json_begin_plain(&showing->json, out, true);
    write_json(showing);
    return true;
}

int hf_doctor_heap(const char *who, const struct hf_live_process *process, bool each,
                   const char *output, int *document)
{
    struct showing showing = {.process = process, .as_json = output != NULL, .each = each};
    const int status = output != NULL ? hf_command_compose(who, output, compose, &showing)
                                      : hf_python_document(who, compose, &showing, document);
    if (showing.why == NULL)
        return status;
    hf_command_complain(who, "cannot read the heap of process %d: %s", (int)process->pid,
                        showing.why);
    return HF_EXIT_FAILED;
}
