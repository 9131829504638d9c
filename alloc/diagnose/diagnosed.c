/*
 * See diagnosed.h. Owns nothing.
 */
#include "alloc/diagnose/diagnosed.h"

#include "alloc/base/alignment.h"
#include "alloc/diagnose/faults.h"
#include "alloc/diagnose/marking.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sampled.h"
#include "alloc/diagnose/sampling.h"
#include "alloc/owner/hosted.h"
#include "alloc/owner/send_home.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* ---- allocating ---- */

static void *marked(void *ptr, size_t size, struct hf_call_site call)
{
    return HF_LIKELY(ptr != NULL) && hf_block_has_trailer(ptr) ? hf_block_mark(ptr, size, call)
                                                               : ptr;
}

static void *refuse(int error)
{
    errno = error;
    return NULL;
}

/* A sampled block, counted, if it is this thread's turn; mostly NULL. */
static void *sampled_now_and_then(size_t alignment, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(size > HF_SAMPLING_LARGE)) {
        hf_sampling_large();
        return NULL;
    }
    if (HF_LIKELY(!hf_sampling_is_due() && !hf_sampling_due()) || !hf_sampling_turn())
        return NULL;
    const struct hf_site site = hf_site_of(call.caller, call.function);
    void *ptr = hf_sampled_allocate(alignment, size, site,
                                    (enum hf_block_kind)hf_block_kinds[call.function]);
    if (ptr != NULL)
        hf_count(site.object, HF_REPORT_ALLOCATED, size);
    return ptr;
}

void *hf_diagnosed_allocate(size_t alignment, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(size > HF_BLOCK_LIMIT))
        return refuse(ENOMEM);
    void *ptr = sampled_now_and_then(alignment, size, call);
    if (HF_UNLIKELY(ptr != NULL))
        return ptr;
    do
        ptr = HF_LIKELY(alignment == 0) ? hf_plain_malloc(size + HF_TRAILER)
                                        : hf_plain_aligned(alignment, size + HF_TRAILER);
    while (HF_UNLIKELY(ptr == NULL) && hf_sampled_yield());
    return marked(ptr, size, call);
}

void *hf_diagnosed_unmarked(void *ptr, size_t size, struct hf_call_site call)
{
    return ptr == NULL && hf_sampled_yield() ? hf_diagnosed_allocate(0, size, call) : ptr;
}

void *hf_diagnosed_aligned(size_t alignment, size_t size, struct hf_call_site call)
{
    alignment = hf_round_alignment(alignment);
    return alignment != 0 ? hf_diagnosed_allocate(alignment, size, call) : refuse(EINVAL);
}

int hf_diagnosed_posix_memalign(void **out, size_t alignment, size_t size, struct hf_call_site call)
{
    if (!hf_is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved_errno = errno;
    void *ptr = hf_diagnosed_allocate(alignment, size, call);
    errno = saved_errno;
    if (ptr == NULL)
        return ENOMEM;
    *out = ptr;
    return 0;
}

void *hf_diagnosed_clear(size_t count, size_t size, struct hf_call_site call)
{
    size_t bytes;
    if (HF_UNLIKELY(__builtin_mul_overflow(count, size, &bytes) || bytes > HF_BLOCK_LIMIT))
        return refuse(ENOMEM);
    void *ptr = sampled_now_and_then(0, bytes, call);
    if (HF_UNLIKELY(ptr != NULL))
        return memset(ptr, 0, bytes);
    if (bytes <= HF_CLEARED_HERE) {
        ptr = hf_plain_malloc(bytes + HF_TRAILER);
        if (HF_UNLIKELY(ptr == NULL) && hf_sampled_yield())
            ptr = hf_plain_malloc(bytes + HF_TRAILER);
        return HF_LIKELY(ptr != NULL) ? memset(marked(ptr, bytes, call), 0, bytes) : NULL;
    }
    do
        ptr = hf_plain_calloc(1, bytes + HF_TRAILER);
    while (HF_UNLIKELY(ptr == NULL) && hf_sampled_yield());
    return marked(ptr, bytes, call);
}

void *hf_diagnosed_claim(void *ptr, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(hf_sampled_holds(ptr))) {
        hf_sampled_claim(ptr, hf_site_of(call.caller, call.function),
                         (enum hf_block_kind)hf_block_kinds[call.function]);
        return ptr;
    }
    return marked(ptr, size, call);
}

/* ---- freeing ---- */

void hf_diagnosed_free(void *ptr, struct hf_stated stated, struct hf_call_site call)
{
    struct hf_trailer trailer;
    if (HF_UNLIKELY(!hf_block_has_trailer(ptr))) {
        if (ptr != NULL && !hf_fault_foreign(ptr, call))
            return;
        hf_plain_free(ptr);
        return;
    }
    if (HF_UNLIKELY(hf_sampled_holds(ptr))) {
        hf_sampled_free(ptr, stated, call);
        return;
    }
    size_t room = hf_heap_room(ptr);
    struct hf_site freed = hf_site_of(call.caller, call.function);
    if (HF_UNLIKELY(room == 0 || hf_trailer_read(ptr, room, &trailer) != HF_TRAILER_LIVE)) {
        if (hf_fault_no_block(ptr, room, freed.number))
            hf_plain_free(ptr);
        return;
    }
    size_t asked = hf_trailer_asked(room, trailer);
    hf_count(hf_site_object(trailer.site), freed.object, asked);
    if (HF_UNLIKELY(!hf_fault_free_fits(trailer.kind, call.function)) || stated.size != NULL ||
        stated.alignment != NULL)
        hf_fault_check(ptr, trailer, asked, stated, call.function, freed.number);
    hf_trailer_write(ptr, room, (struct hf_trailer){trailer.site, HF_BLOCK_FREED, freed.number});
    hf_plain_free(ptr);
}

/* ---- resizing ---- */

static void *resize_elsewhere(void *ptr, size_t size, struct hf_call_site call)
{
    if (hf_forward != NULL && hf_owned(ptr))
        return hf_forward->realloc(ptr, size);
    if (hf_fault_foreign(ptr, call))
        return hf_realloc_foreign(ptr, size, call.caller);
    return refuse(ENOMEM);
}

static void *resize_sampled(void *ptr, size_t size, struct hf_call_site call)
{
    const void *block;
    if (!hf_sampled_may_resize(ptr, call))
        return refuse(ENOMEM);
    void *resized = size != 0 ? hf_diagnosed_allocate(0, size, call) : NULL;
    if (resized != NULL) {
        const size_t old = hf_sampled_block(ptr, &block);
        memcpy(resized, ptr, old < size ? old : size);
    }
    if (resized != NULL || size == 0)
        hf_sampled_free(ptr, HF_NOTHING_STATED, call);
    return resized;
}

/* The sampled block that a realloc moves a block to; mostly NULL. */
static void *move_to_sampled(void *ptr, size_t old, size_t size, struct hf_call_site call)
{
    void *resized = sampled_now_and_then(0, size, call);
    if (HF_LIKELY(resized == NULL))
        return NULL;
    memcpy(resized, ptr, old < size ? old : size);
    hf_diagnosed_free(ptr, HF_NOTHING_STATED, call);
    return resized;
}

void *hf_diagnosed_resize(void *ptr, size_t size, struct hf_call_site call)
{
    struct hf_trailer trailer;
    if (ptr == NULL)
        return hf_diagnosed_allocate(0, size, call);
    if (HF_UNLIKELY(!hf_block_has_trailer(ptr)))
        return resize_elsewhere(ptr, size, call);
    if (HF_UNLIKELY(size > HF_BLOCK_LIMIT))
        return refuse(ENOMEM);
    if (HF_UNLIKELY(hf_sampled_holds(ptr)))
        return resize_sampled(ptr, size, call);
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    if (HF_UNLIKELY(hosted != NULL))
        return hosted->realloc(ptr, size, call.caller);
    size_t room = hf_heap_room(ptr);
    struct hf_site site = hf_site_of(call.caller, call.function);
    if (HF_UNLIKELY(room == 0 || hf_trailer_read(ptr, room, &trailer) != HF_TRAILER_LIVE)) {
        if (!hf_fault_no_block(ptr, room, site.number))
            return refuse(ENOMEM);
        trailer = (struct hf_trailer){0, HF_BLOCK_ANY, HF_SLACK_UNKNOWN};
    }
    if (size == 0) {
        hf_diagnosed_free(ptr, HF_NOTHING_STATED, call);
        return NULL;
    }
    size_t asked = hf_trailer_asked(room, trailer);
    if (HF_UNLIKELY(!hf_fault_free_fits(trailer.kind, call.function)))
        hf_fault_check(ptr, trailer, asked, HF_NOTHING_STATED, call.function, site.number);
    else if (asked <= HF_SAMPLING_LARGE && size <= HF_SAMPLING_LARGE && hf_sampling_due()) {
        void *sampled = move_to_sampled(ptr, asked, size, call);
        if (sampled != NULL)
            return sampled;
    }
    void *resized;
    do
        resized = hf_plain_realloc(ptr, size + HF_TRAILER, call.caller);
    while (HF_UNLIKELY(resized == NULL) && hf_sampled_yield());
    if (HF_LIKELY(resized != NULL)) {
        hf_count(hf_site_object(trailer.site), site.object, asked);
        if (hf_block_has_trailer(resized))
            resized = hf_block_mark(resized, size, call);
    }
    return resized;
}

size_t hf_diagnosed_usable(const void *ptr, struct hf_call_site call)
{
    if (ptr == NULL)
        return 0;
    if (!hf_owned(ptr))
        return hf_usable_size_foreign(ptr);
    if (hf_forward != NULL)
        return hf_forward->usable_size(ptr);
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    return hosted != NULL ? hosted->usable_size(ptr, call.caller)
                          : hf_plain_usable(ptr, call.caller) - HF_TRAILER;
}

/* ---- the seam's other names ---- */

/* Who calls these is libhomefree itself. */

size_t hf_heap_usable(const void *ptr, const void *caller)
{
    if (HF_UNLIKELY(hf_sampled_holds(ptr)))
        return hf_hosted_of(ptr)->usable_size(ptr, caller);
    return hf_plain_usable(ptr, caller) - HF_TRAILER;
}

size_t hf_heap_asked(const void *ptr, const void *caller)
{
    if (HF_UNLIKELY(hf_sampled_holds(ptr)))
        return hf_hosted_of(ptr)->usable_size(ptr, caller);
    return hf_plain_asked(ptr, caller) - HF_TRAILER;
}

size_t hf_heap_block(const void *ptr, const void **block)
{
    if (HF_UNLIKELY(hf_sampled_holds(ptr)))
        return hf_sampled_block(ptr, block);
    size_t size = hf_plain_block(ptr, block);
    return size > HF_TRAILER ? size - HF_TRAILER : 0;
}
