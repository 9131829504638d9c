/*
 * The frequent cases of the diagnosed heap, inlined into its entry points: allocating with malloc's
 * alignment, and freeing a live block by a function that fits it. Everything else is diagnosed.c's.
 *
 * The rules of diagnosed.h hold. Owns nothing.
 */
#ifndef HOMEFREE_HOT_H
#define HOMEFREE_HOT_H

#include "alloc/diagnose/diagnosed.h"
#include "alloc/diagnose/faults.h"
#include "alloc/diagnose/marking.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sampling.h"

static inline __attribute__((always_inline)) void *hf_hot_allocate(size_t size,
                                                                   struct hf_call_site call)
{
    /* The process's first allocation is due. */
    if (HF_UNLIKELY(size > HF_SAMPLING_LARGE) || hf_sampling_due())
        return hf_diagnosed_allocate(0, size, call);
    void *ptr = hf_plain_malloc(size + HF_TRAILER);
    return HF_LIKELY(hf_block_has_trailer(ptr)) ? hf_block_mark(ptr, size, call)
                                                : hf_diagnosed_unmarked(ptr, size, call);
}

/* For functions that state nothing about the block. */
static inline __attribute__((always_inline)) void hf_hot_free(void *ptr, struct hf_call_site call)
{
    struct hf_trailer trailer;
    size_t room;
    if (HF_UNLIKELY(!hf_block_has_trailer(ptr)) || HF_UNLIKELY((room = hf_heap_room(ptr)) == 0) ||
        HF_UNLIKELY(hf_trailer_read(ptr, room, &trailer) != HF_TRAILER_LIVE) ||
        HF_UNLIKELY(!hf_fault_free_fits(trailer.kind, call.function))) {
        hf_diagnosed_free(ptr, HF_NOTHING_STATED, call);
        return;
    }
    struct hf_site freed = hf_site_of(call.caller, call.function);
    hf_count(hf_site_object(trailer.site), freed.object, hf_trailer_asked(room, trailer));
    hf_trailer_write(ptr, room, (struct hf_trailer){trailer.site, HF_BLOCK_FREED, freed.number});
    hf_plain_free(ptr);
}

#endif
