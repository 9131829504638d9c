/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a local heap that lacks a span gets one, what goes back, and how much there is in all. Owns
 * nothing; takes the spans' lock. Inside the gate.
 */
#ifndef HOMEFREE_ALLOC_SPANS_SUPPLY_H
#define HOMEFREE_ALLOC_SPANS_SUPPLY_H

#include "alloc/spans/span.h"

/* A span for a local heap: one that a thread has left, or a new one; NULL if there is no memory. */
struct hf_span *hf_span_get(struct hf_local *local, unsigned class);

/* Gives back what no span has had since the last call, or all that no span has: whole pieces to
 * pages, the memory of other units to the system. To be called every now and then. */
void hf_spans_trim(bool all);
/* The latter, if that is much. */
void hf_spans_trim_much(void);
/* Bytes in spans of local heaps that wait for another thread, at least. */
size_t hf_spans_warm(void);

struct hf_spans_count {
    uint64_t blocks;   /* live ones */
    uint64_t live;     /* bytes in them */
    uint64_t spans;    /* that somebody owns */
    uint64_t active;   /* their bytes */
    uint64_t clean;    /* bytes of units that no span has, and that have no memory */
    uint64_t metadata; /* bytes */
    uint64_t locals;
};
struct hf_spans_count hf_spans_count(void);

#endif
