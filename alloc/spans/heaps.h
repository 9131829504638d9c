/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Heaps of one's own (homefree/heap.h), and the walk over all live blocks. A heap is a local heap
 * that no thread has, with a lock; its large blocks' records name it. heaps.c owns the heaps and
 * the list of those that wait for use. A heap's lock comes before the spans'; it is taken inside
 * the gate, and held for a call.
 */
#ifndef HOMEFREE_ALLOC_SPANS_HEAPS_H
#define HOMEFREE_ALLOC_SPANS_HEAPS_H

#include "alloc/base/live_tables.h"
#include "alloc/spans/own_heap.h"

/* The heap of one's own that a live block belongs to, or NULL. No lock. */
struct hf_heap *hf_heap_holding(const void *ptr);

/* Without it there are no heaps and no walk. Called once, while the heap starts. */
void hf_heaps_allow(void);

/* The walk from outside reads it. */
extern const struct hf_live_blocks hf_blocks_live;

#endif
