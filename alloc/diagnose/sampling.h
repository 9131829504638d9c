/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sampling: which allocations get a block behind a guard page (guarded_samples.h), and when
 * something is done now and then on the way (timeline.h). Each thread counts its allocations down;
 * what happens at zero is off the frequent path.
 *
 * Owns the countdowns and the pace. Any thread, at any stage, without a lock.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_SAMPLING_H
#define HOMEFREE_ALLOC_DIAGNOSE_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocations until the calling thread's next turn; 0 in a new thread, and negative if it is due.
 */
extern __thread int32_t hf_sampling_left
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Counts an allocation. True: call hf_sampling_turn(). Always true for the process's first. */
static inline __attribute__((always_inline)) bool hf_sampling_due(void)
{
    return __builtin_expect(--hf_sampling_left < 0, 0);
}

/* Whether it was the thread's turn already, in a caller. */
static inline bool hf_sampling_is_due(void)
{
    return hf_sampling_left < 0;
}

/* A thread's turn. Begins the report if this is the process's first allocation. Returns whether the
 * allocation should be sampled. */
bool hf_sampling_turn(void);

/* Above this size, call hf_sampling_large() instead: what such a block does to the memory in use
 * should be seen. */
#define HF_SAMPLING_LARGE ((size_t)1 << 20)
void hf_sampling_large(void);

enum { HF_SAMPLING_OFTEN = 16, HF_SAMPLING_USUAL = 4096, HF_SAMPLING_MAX = 1 << 30 };

/* Begins sampling. every: one allocation in so many, chosen at random; 0: none. paced: at most one
 * for each tick of the system's coarse clock (1 to 10 ms). sees: whether accesses to guarded
 * samples would be noticed now. A thread's first half countdown is never sampled, so that what
 * short programs record is always the same. */
void hf_sampling_start(uint32_t every, bool paced, bool (*sees)(void));

/* Ends it. */
void hf_sampling_stop(void);

/* Whether a block may be sampled now. */
bool hf_sampling_is_possible(void);

#endif
