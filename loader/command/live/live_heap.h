/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The blocks of a running process's heap, read from its memory (alloc/base/live_tables.h).
 *
 * In a process that is stopped, or whose threads neither allocate nor free, they are exactly those
 * that hf_heap_walk() finds; otherwise what the threads do meanwhile may be seen or not. With
 * guards (HOMEFREE_CONF=checks:full and hardened) a block is told with its guard, and a large one
 * of the hardened heap with the pages around it.
 *
 * Constraint: the memory is hostile. Every number is bounded and addresses are only read from; what
 * makes no sense is left out.
 *
 * Owns nothing. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_LIVE_LIVE_HEAP_H
#define HOMEFREE_LOADER_COMMAND_LIVE_LIVE_HEAP_H

#include "loader/command/live/live_process.h"

enum { HF_LIVE_CLASSES_MOST = 256 };

struct hf_live_block {
    uint64_t address, size; /* size: usable bytes */
    bool large;             /* it has pages of its own */
    bool live;              /* otherwise it is kept for reuse */
};

/* Is called for each block, by address. */
typedef void hf_live_heap_visitor(void *context, const struct hf_live_block *block);

struct hf_live_heap {
    struct hf_live_class {
        uint64_t size, spans, bytes; /* bytes: of the spans */
        uint64_t live, free;         /* blocks */
    } classes[HF_LIVE_CLASSES_MOST];
    size_t count;                 /* of classes */
    uint64_t region, region_size; /* where the heap lies */
    uint64_t large_live, large_live_bytes, large_free, large_free_bytes;
    bool left_out; /* it took too long, or the process changed under the reader's hands */
};

/* Reads the heap that a struct hf_live_blocks at an address of the process describes. `visit` may
 * be NULL. False: the description makes no sense, or the memory cannot be read. */
bool hf_live_heap_read(const struct hf_live_process *process, uint64_t description,
                       hf_live_heap_visitor *visit, void *context, struct hf_live_heap *out);

#endif
