/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast paths: a block from a stack or a group, and back to the stack. No lock, no gate, no
 * call. For functions of family.c, in any thread.
 */
#ifndef HOMEFREE_ALLOC_SPANS_SMALL_H
#define HOMEFREE_ALLOC_SPANS_SMALL_H

#include "alloc/spans/span.h"

#define HF_ALWAYS_INLINE static inline __attribute__((always_inline))

/* A block in a live state; NULL if the slow path must find one. */
HF_ALWAYS_INLINE void *hf_small_take_as(struct hf_local *local, size_t class, uint8_t live)
{
    struct hf_freed *top = local->tops[class];
    char *block = top->block;
    if (HF_LIKELY(block != NULL)) {
        local->tops[class] = top - 1;
        __atomic_store_n(top->state, live, __ATOMIC_RELAXED);
        return block;
    }
    struct hf_bin *bin = &local->bins[class];
    const uint64_t mask = bin->mask;
    if (HF_UNLIKELY(mask == 0))
        return NULL;
    const size_t index = (size_t)__builtin_ctzll(mask);
    bin->mask = mask & (mask - 1);
    __atomic_store_n(&bin->group_state[index], live, __ATOMIC_RELAXED);
    block = bin->group_first + index * bin->size;
    if (block == NULL)
        __builtin_unreachable(); /* so that callers test a block once */
    return block;
}

HF_ALWAYS_INLINE void *hf_small_take(struct hf_local *local, size_t class)
{
    return hf_small_take_as(local, class, HF_LIVE);
}

/* Takes back a block of the local heap's that is live in any way. */
HF_ALWAYS_INLINE void hf_small_put(struct hf_local *local, void *ptr, struct hf_entry *entry,
                                   uint8_t *state)
{
    const size_t class = entry->class;
    struct hf_freed *top = local->tops[class] + 1;
    if (HF_LIKELY(top != local->limits[class])) {
        __atomic_store_n(state, HF_STACKED, __ATOMIC_RELAXED);
        *top = (struct hf_freed){ptr, state};
        local->tops[class] = top;
        return;
    }
    /* The stack is full: straight into the span, no batch. */
    struct hf_span *span = hf_entry_span(entry);
    __atomic_store_n(state, HF_FREE, __ATOMIC_RELAXED);
    if (HF_UNLIKELY(++span->free == span->when))
        hf_span_reached(local, span);
}

/* Takes back a live block of the region that is the local heap's. Otherwise it is for a slow path,
 * which also knows what is wrong. */
enum hf_small_given { HF_SMALL_GIVEN, HF_SMALL_ELSEWHERE, HF_SMALL_STATE };
HF_ALWAYS_INLINE enum hf_small_given hf_small_try(struct hf_local *local, void *ptr,
                                                  struct hf_entry *entry)
{
    uint8_t *state;
    if (HF_UNLIKELY(__atomic_load_n(&entry->owner, __ATOMIC_RELAXED) != local))
        return HF_SMALL_ELSEWHERE;
    if (HF_UNLIKELY(!hf_entry_state(entry, ptr, &state)) ||
        HF_UNLIKELY(__atomic_load_n(state, __ATOMIC_RELAXED) != HF_LIVE))
        return HF_SMALL_STATE;
    hf_small_put(local, ptr, entry, state);
    return HF_SMALL_GIVEN;
}

HF_ALWAYS_INLINE bool hf_small_give(struct hf_local *local, void *ptr, struct hf_entry *entry)
{
    return hf_small_try(local, ptr, entry) == HF_SMALL_GIVEN;
}

/* Takes back a live block of the region that is another local heap's. As soon as the state is
 * REMOTE, the owner may collect the block, find the span wholly free, and give it away: so the
 * span's record is read before. It may be another span's of the same class when it is queued, which
 * does no harm. False: for the slow path. */
HF_ALWAYS_INLINE bool hf_small_give_remote(void *ptr, struct hf_entry *entry)
{
    uint8_t *state, live = HF_LIVE;
    if (HF_UNLIKELY(!hf_entry_has_span(entry)))
        return false;
    struct hf_span *span = hf_entry_span(entry);
    if (HF_UNLIKELY(!hf_entry_state(entry, ptr, &state)) ||
        HF_UNLIKELY(!__atomic_compare_exchange_n(state, &live, HF_REMOTE, false, __ATOMIC_SEQ_CST,
                                                 __ATOMIC_RELAXED)))
        return false;
    hf_span_hint(span);
    return true;
}

#endif
