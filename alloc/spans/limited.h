/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What limits count (homefree/limit.h): the bytes of a library's live blocks: a small one's class,
 * a large one's pages, as many as were asked for. A block that counts has the limit's number in its
 * state (HF_LIMITED), or in its record if it is large: so whoever frees it, from whatever thread,
 * finds whom to credit, and no other block's fast path has an instruction for it.
 *
 * Each local heap has some bytes of each limit at hand, HF_LIMITED_AT_HAND at most, which are
 * counted already: a block takes from them and gives back to them without an atomic operation. So
 * `used` is exact but for that much for each thread, and never too low.
 *
 * limited.c owns the numbers. Any thread, in the gate or not; no lock.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LIMITED_H
#define HOMEFREE_ALLOC_SPANS_LIMITED_H

#include "alloc/heap/front_end.h"
#include "alloc/spans/local.h"

enum { HF_LIMITED_AT_HAND = 4096 };
_Static_assert(HF_LIMITED + 2 * HF_LIMITS_COUNT <= UINT8_MAX + 1, "a state is a byte");

/* What a large block counts. */
static inline uint64_t hf_limited_large(size_t asked)
{
    enum { PAGE = 4096 };
    return ((uint64_t)asked + PAGE - 1) & -(uint64_t)PAGE;
}

/* The state of a block: sampled ones (samples.h) are odd. */
static inline uint8_t hf_limited_state(unsigned limit, bool sampled)
{
    return (uint8_t)(HF_LIMITED + 2 * limit + sampled);
}
static inline unsigned hf_limited_of_state(uint8_t state)
{
    return (state - HF_LIMITED) / 2U;
}
static inline bool hf_limited_is_sampled(uint8_t state)
{
    return state % 2 != 0;
}

/* As hf_limited_charge(), above the limit, too. */
void hf_limited_force(unsigned limit, uint64_t bytes);

/* The same with what the calling thread has at hand. local: its own, or NULL. */
bool hf_limited_spend(struct hf_local *local, unsigned limit, uint64_t bytes);
void hf_limited_put_back(struct hf_local *local, unsigned limit, uint64_t bytes);
/* A local heap loses its thread: what it has at hand counts no longer. */
void hf_limited_leave(struct hf_local *local);

#endif
