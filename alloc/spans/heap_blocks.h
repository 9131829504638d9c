/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of the heap, small and large: what the family's slow paths do with them. Owns the lock
 * under which one thread at a time makes room in a full region.
 */
#ifndef HOMEFREE_ALLOC_SPANS_HEAP_BLOCKS_H
#define HOMEFREE_ALLOC_SPANS_HEAP_BLOCKS_H

#include "alloc/spans/span.h"

/* What is asked for. */
struct hf_heap;
struct hf_request {
    size_t size, alignment; /* alignment: a power of two; 0 for malloc's */
    bool zeroed;
    struct hf_heap *heap; /* heaps.h; NULL for the thread's local heap */
};

/* A new block, if need be after making room. NULL with ENOMEM if there is none. Inside the gate, in
 * the copy that is the heap. */
void *hf_block_new(struct hf_request request);

/* The usable size of the live block that starts at an address of the region; ends the process if
 * there is none. No lock; no gate. */
size_t hf_block_check(const void *ptr, const void *caller, enum hf_corruption purpose);

/* Frees a live block; ends the process if another thread has done so meanwhile. Inside the gate. */
void hf_block_give(void *ptr, const void *caller);

#endif
