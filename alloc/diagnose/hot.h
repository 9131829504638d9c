/*
 * The frequent cases of the diagnosed heap, inlined into its entry points: allocating with malloc's
 * alignment, and freeing a live block by a function that fits it. Everything else is diagnosed.c's.
 *
 * The rules of diagnosed.h hold. Owns the constant table of kinds (in diagnosed.c).
 */
#ifndef HOMEFREE_HOT_H
#define HOMEFREE_HOT_H

#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/diagnosed.h"
#include "alloc/diagnose/faults.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/trailers.h"
#include "alloc/heap/internal.h"

/* Up to this size, a request grows by the trailer without overflow. */
#define HF_HOT_SIZE_LIMIT (SIZE_MAX / 2)

/* What kind of block each function allocates. */
extern const unsigned char hf_block_kinds[HF_FUNCTION_COUNT] __attribute__((visibility("hidden")));

/* Whether a block of the plain heap has a trailer: not if it came from libc during a fork, or from
 * the heap that this copy forwards to. */
static inline bool hf_hot_has_trailer(const void *ptr)
{
    return HF_LIKELY(hf_owned(ptr)) && HF_LIKELY(hf_forward == NULL);
}

static inline void hf_hot_mark(void *ptr, size_t size, struct hf_call_site call)
{
    struct hf_site site = hf_site_of(call.caller, call.function);
    size_t room = hf_heap_room(ptr);
    hf_trailer_write(ptr, room,
                     (struct hf_trailer){site.number,
                                         (enum hf_block_kind)hf_block_kinds[call.function],
                                         hf_trailer_slack(room, size)});
    hf_count(site.object, HF_REPORT_ALLOCATED, size);
}

static inline void *hf_hot_allocate(size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(size > HF_HOT_SIZE_LIMIT || hf_report_header() == NULL))
        return hf_diagnosed_allocate(0, size, call);
    void *ptr = hf_plain_malloc(size + HF_TRAILER);
    if (hf_hot_has_trailer(ptr)) /* NULL lies outside the region */
        hf_hot_mark(ptr, size, call);
    return ptr;
}

/* For functions that state nothing about the block. */
static inline void hf_hot_free(void *ptr, struct hf_call_site call)
{
    struct hf_trailer trailer;
    size_t room;
    if (HF_UNLIKELY(!hf_hot_has_trailer(ptr)) || HF_UNLIKELY((room = hf_heap_room(ptr)) == 0) ||
        HF_UNLIKELY(hf_trailer_read(ptr, room, &trailer) != HF_TRAILER_LIVE) ||
        HF_UNLIKELY(!hf_fault_free_fits(trailer.kind, call.function))) {
        hf_diagnosed_free(ptr, (struct hf_stated){NULL, NULL}, call);
        return;
    }
    struct hf_site freed = hf_site_of(call.caller, call.function);
    hf_count(hf_site_object(trailer.site), freed.object, hf_trailer_asked(room, trailer));
    hf_trailer_write(ptr, room, (struct hf_trailer){trailer.site, HF_BLOCK_FREED, freed.number});
    hf_plain_free(ptr);
}

#endif
