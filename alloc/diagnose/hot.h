/*
 * The frequent cases of the diagnosed heap, inlined into its entry points: what small.h can do.
 * Everything else is diagnosed.c's.
 *
 * The rules of diagnosed.h hold. Owns nothing.
 */
#ifndef HOMEFREE_HOT_H
#define HOMEFREE_HOT_H

#include "alloc/diagnose/diagnosed.h"
#include "alloc/diagnose/small.h"

/* malloc(3). */
static inline __attribute__((always_inline)) void *hf_hot_allocate(size_t size,
                                                                   struct hf_call_site call)
{
    return HF_LIKELY(size <= HF_SMALL_MAX) ? hf_small_allocate(size, call)
                                           : hf_diagnosed_allocate(0, size, call);
}

/* free(3), and functions that state something about the block. */
static inline __attribute__((always_inline)) void hf_hot_free(void *ptr, struct hf_stated stated,
                                                              struct hf_call_site call)
{
    if (HF_UNLIKELY(!hf_small_free(ptr, stated, call, 0)))
        hf_diagnosed_free(ptr, stated, call);
}

#endif
