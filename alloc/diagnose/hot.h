/*
 * The frequent cases of the diagnosed heap, inlined into its entry points: what small.h can do.
 * Everything else is diagnosed.c's.
 *
 * The rules of diagnosed.h hold. Owns nothing.
 */
#ifndef HOMEFREE_HOT_H
#define HOMEFREE_HOT_H

#include "alloc/diagnose/diagnosed.h"
#include "alloc/diagnose/sampling.h"
#include "alloc/diagnose/small.h"

/* malloc(3), in an exported function, whose caller is asked for only when the block is there. */
static inline __attribute__((always_inline)) void *hf_hot_allocate(size_t size,
                                                                   enum hf_report_function function)
{
    /* The process's first allocation is due. */
    if (HF_UNLIKELY(size > HF_SMALL_MAX) || hf_sampling_due())
        return hf_diagnosed_allocate(0, size,
                                     (struct hf_call_site){function, __builtin_return_address(0)});
    const struct hf_taken taken = hf_heap_take(size + HF_TRAILER);
    if (HF_UNLIKELY(taken.size == 0))
        return hf_diagnosed_unmarked(taken.ptr, size,
                                     (struct hf_call_site){function, __builtin_return_address(0)});
    return hf_block_mark_taken(taken, size,
                               (struct hf_call_site){function, __builtin_return_address(0)});
}

/* free(3), and functions that state something about the block. */
static inline __attribute__((always_inline)) void hf_hot_free(void *ptr, struct hf_stated stated,
                                                              struct hf_call_site call)
{
    if (HF_UNLIKELY(!hf_small_free(ptr, stated, call, 0)))
        hf_diagnosed_free(ptr, stated, call);
}

#endif
