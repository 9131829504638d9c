/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counts the blocks that cross from one object to another, and what each object allocates. Each
 * thread has a table of its own in the report's file (report_file.h), so counting takes no lock and
 * no atomic operation; a table goes to another thread when its thread ends. A table of recent calls
 * (recent.h) comes with it.
 *
 * Any thread, at any stage. A thread that finds its tables full, or that can have none, counts in a
 * shared table with atomic operations; pairs that find no room there are dropped.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_COUNTS_H
#define HOMEFREE_ALLOC_DIAGNOSE_COUNTS_H

#include "alloc/diagnose/report_format.h"

#include <stddef.h>

enum { HF_COUNTS_ROOM = 127, HF_COUNTS_OBJECTS = 4096 /* objects have lower numbers */ };

struct hf_counts {
    struct hf_report_pair pairs[HF_COUNTS_ROOM];
};

/* Counts one block of `bytes` bytes; freed: HF_REPORT_ALLOCATED for an allocation. Returns where
 * the calling thread, and no other, counts more of them; NULL if it shares that. */
struct hf_report_pair *hf_count(uint16_t allocated, uint16_t freed, size_t bytes);

/* Counts one more, at what hf_count() returned to this thread. */
static inline void hf_count_again(struct hf_report_pair *pair, size_t bytes)
{
    pair->blocks++;
    pair->bytes += bytes;
}

/* Registers what ends with a thread. Called once, by the library's constructor. */
void hf_counts_start(void);

/* For the child of fork(2), after hf_report_in_child(): all counts begin at 0. */
void hf_counts_in_child(void);

/* The sum over all tables: blocks and bytes that were allocated. */
void hf_counts_total(uint64_t *blocks, uint64_t *bytes);

/* Adds the bytes of each object's blocks that are not freed yet, as far as they were counted, to
 * `bytes`. Returns one more than the highest number of such an object. Other threads may be
 * counting. */
uint32_t hf_counts_live(int64_t bytes[HF_COUNTS_OBJECTS]);

#endif
