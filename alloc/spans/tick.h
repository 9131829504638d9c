/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tick: what is kept for reuse and has not been needed lately goes back to the system. Slow
 * paths call it, and so may whoever is idle. Owns nothing; takes locks of the heap, one at a time.
 */
#ifndef HOMEFREE_ALLOC_SPANS_TICK_H
#define HOMEFREE_ALLOC_SPANS_TICK_H

#include "alloc/heap/front_end.h"
#include "alloc/spans/local.h"

#include <stdbool.h>

/* Does so once in each window of time; otherwise reads a coarse clock. Inside the gate, without a
 * lock of the heap. */
void hf_tick(void);

/* After something was freed: what the program leaves goes back at once. Not while the caller uses
 * a local heap. */
void hf_tick_freed(void);

/* The same for a thread that ends, after which nobody may come along; `last`: no other one but
 * the process's first uses the heap. */
void hf_tick_at_end(bool last);

/* All that is unused goes back at once, but for what other threads have at hand. */
void hf_tick_empty(void);

/* What a thread gives back that was asked for it (hf_locals_ask). It does not use its local heap.
 */
void hf_tick_answer(struct hf_local *local);

/* Whether it is time to ask every thread. For the one thread that looks, while others take no slow
 * path. */
bool hf_tick_asks(void);

/* For a thread of homefree's own that does nothing but look: what is unused goes back once no slow
 * path has begun for `quiet` nanoseconds and the time since the last give-back pays for it. */
enum hf_look hf_tick_look(uint64_t quiet);

/* In a forked child, whose first give-back need not be earned either. */
void hf_tick_reset_in_child(void);

#endif
