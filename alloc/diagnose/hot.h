/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frequent cases of the debug heap, inlined into its entry points: what small.h can do.
 * Everything else is debug_heap.c's.
 *
 * The rules of debug_heap.h hold. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_HOT_H
#define HOMEFREE_ALLOC_DIAGNOSE_HOT_H

#include "alloc/diagnose/debug_heap.h"
#include "alloc/diagnose/sampling.h"
#include "alloc/diagnose/small_blocks.h"
#include "alloc/trace/watch.h"

/* The return address of a call of ours through the code that stands in between while watches are
 * open. */
static inline __attribute__((always_inline)) const void *hf_hot_caller(bool ours,
                                                                       const void *address)
{
    if (ours && HF_UNLIKELY(hf_watch_call != NULL) && hf_watch_call->back != NULL)
        return hf_watch_call->back;
    return address;
}

/* malloc(3). call: evaluated once, and on the frequent path only when the block is there. */
#define HF_HOT_ALLOCATE(size, call)                                 \
    /* The process's first allocation is due. */                    \
    if (HF_UNLIKELY((size) > HF_SMALL_MAX) || hf_sampling_due())    \
        return hf_debug_heap_allocate(0, size, call);               \
    const struct hf_taken taken = hf_heap_take((size) + HF_FOOTER); \
    if (HF_UNLIKELY(taken.size == 0))                               \
        return hf_debug_heap_unmarked(taken.ptr, size, call);       \
    return hf_block_mark_taken(taken, size, call)

/* In an exported function. ours: the function is homefree's own. */
static inline __attribute__((always_inline)) void *
hf_hot_allocate(size_t size, enum hf_report_function function, bool ours)
{
    HF_HOT_ALLOCATE(
        size, ((struct hf_call_site){function, hf_hot_caller(ours, __builtin_return_address(0))}));
}

/* Of a known call. */
static inline void *hf_hot_allocate_for(size_t size, struct hf_call_site call)
{
    HF_HOT_ALLOCATE(size, call);
}

/* free(3), and functions that state something about the block. */
static inline __attribute__((always_inline)) void hf_hot_free(void *ptr, struct hf_stated stated,
                                                              struct hf_call_site call)
{
    if (HF_UNLIKELY(!hf_small_free(ptr, stated, call, 0)))
        hf_debug_heap_free(ptr, stated, call);
}

#endif
