/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks that count for a limit (limited.h): made so, and resized. front_end.h declares what the
 * rest of homefree calls. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LIMITED_BLOCKS_H
#define HOMEFREE_ALLOC_SPANS_LIMITED_BLOCKS_H

#include "alloc/spans/limited.h"

/* A live block on its way to another size, or to another place. */
struct hf_limited_resize {
    int limit; /* -1: it counts for none */
    uint64_t counted;
};

/* Counts what the block would have more, if it counts for a limit; from then on it is an ordinary
 * one. False with ENOMEM: that would be above the limit, and nothing has changed. */
bool hf_limited_resize_begin(struct hf_limited_resize *resize, const void *ptr, size_t size);
/* block: where it is now, which may be where it was. */
void hf_limited_resize_end(const struct hf_limited_resize *resize, const void *block);

/* In the calling thread's span: the state of a block that counts for a limit, and is no sample;
 * otherwise NULL. No gate. */
static inline __attribute__((always_inline)) uint8_t *hf_limited_own(const void *ptr,
                                                                     const struct hf_entry *entry)
{
    uint8_t *state;
    if (HF_UNLIKELY(!hf_entry_state(entry, ptr, &state)))
        return NULL;
    const uint8_t now = __atomic_load_n(state, __ATOMIC_RELAXED);
    return HF_UNLIKELY(now < HF_LIMITED) || HF_UNLIKELY(hf_limited_is_sampled(now)) ? NULL : state;
}

#endif
