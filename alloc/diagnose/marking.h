/*
 * Marks a new block: writes its trailer, and counts it for the object that allocated it. Owns the
 * constant table of kinds. Any thread, at any stage, for a block that is the caller's own.
 */
#ifndef HOMEFREE_MARKING_H
#define HOMEFREE_MARKING_H

#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/event.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/diagnose/trailers.h"
#include "alloc/heap/internal.h"

#include <stdbool.h>

/* Up to this size, a request grows by the trailer without overflow. */
#define HF_BLOCK_LIMIT (SIZE_MAX / 2)

/* What kind of block each function allocates. */
extern const unsigned char hf_block_kinds[HF_FUNCTION_COUNT] __attribute__((visibility("hidden")));

/* Whether a block of the plain heap has a trailer: not if it came from libc during a fork, or from
 * the heap that this copy forwards to. */
static inline bool hf_block_has_trailer(const void *ptr)
{
    return HF_LIKELY(hf_owned(ptr)) && HF_LIKELY(hf_forward == NULL);
}

/* hf_block_mark() for a deep site. */
void *hf_block_mark_deep(void *ptr, size_t size, struct hf_call_site call);

/* Returns the block to hand out: ptr, or a sampled one (sampled.h) with its contents. */
static inline __attribute__((always_inline)) void *hf_block_mark(void *ptr, size_t size,
                                                                 struct hf_call_site call)
{
    const struct hf_site site = hf_site_of(call.caller, call.function);
    if (HF_UNLIKELY(site.deep != 0))
        return hf_block_mark_deep(ptr, size, call);
    const size_t room = hf_heap_room(ptr);
    hf_trailer_write(ptr, room,
                     (struct hf_trailer){site.number,
                                         (enum hf_block_kind)hf_block_kinds[call.function],
                                         hf_trailer_slack(room, size)});
    hf_count(site.object, HF_REPORT_ALLOCATED, size);
    return ptr;
}

#endif
