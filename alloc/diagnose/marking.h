/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks a new block: writes its footer, and counts it for the object that allocated it. Owns the
 * constant table of kinds. Any thread, at any stage, for a block that is the caller's own.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_MARKING_H
#define HOMEFREE_ALLOC_DIAGNOSE_MARKING_H

#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/event.h"
#include "alloc/diagnose/recent.h"
#include "alloc/heap/internal.h"

/* Up to this size, a request grows by the footer without overflow. */
#define HF_BLOCK_LIMIT (SIZE_MAX / 2)

/* Whether a block of the plain heap has a footer: not if it came from libc during a fork, or from
 * the heap that this copy forwards to. */
static inline bool hf_block_has_footer(const void *ptr)
{
    return HF_LIKELY(hf_owned(ptr)) && HF_LIKELY(hf_forward == NULL);
}

/* What kind of block each function allocates. */
extern const unsigned char hf_block_kinds[HF_FUNCTION_COUNT] __attribute__((visibility("hidden")));

/* Marks a block with a footer. capacity: its size, footer included. Returns the block to hand out:
 * ptr, or a sampled one (guarded_samples.h) with its contents. */
void *hf_block_mark(void *ptr, size_t capacity, size_t size, struct hf_call_site call);

/* The same for a block that hf_heap_take() just handed out, which nobody has written to. */
static inline __attribute__((always_inline)) void *
hf_block_mark_taken(struct hf_taken taken, size_t size, struct hf_call_site call)
{
    struct hf_recent *recent;
    if (HF_UNLIKELY(!hf_recent_allocation(call, 0, &recent)))
        return hf_block_mark(taken.ptr, taken.size, size, call);
    hf_footer_store(taken.ptr, taken.size,
                    (recent->base ^ hf_footer_place(taken.ptr)) +
                        hf_footer_slack(taken.size - HF_FOOTER - size));
    hf_count_again(recent->pair, size);
    return taken.ptr;
}

#endif
