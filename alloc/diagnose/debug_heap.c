/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See debug_heap.h. Owns nothing.
 */
#include "alloc/diagnose/debug_heap.h"

#include "alloc/base/alignment.h"
#include "alloc/diagnose/faults.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sampling.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/small_blocks.h"
#include "alloc/diagnose/watched.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/fail.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* ---- allocating ---- */

static void *marked(void *ptr, size_t size, struct hf_call_site call)
{
    return HF_LIKELY(ptr != NULL) && hf_block_has_footer(ptr)
               ? hf_block_mark(ptr, hf_heap_capacity(ptr), size, call)
               : ptr;
}

/* The same for a block that watches record. */
static void *handed_out(void *ptr, size_t size, struct hf_call_site call)
{
    return hf_watched_allocated(marked(ptr, size, call), size, call);
}

/* malloc(3) of at most HF_SMALL_MAX bytes. */
static inline void *small(size_t size, struct hf_call_site call)
{
    const struct hf_taken taken = hf_heap_take(size + HF_FOOTER);
    return HF_LIKELY(taken.size != 0) ? hf_block_mark_taken(taken, size, call)
                                      : handed_out(taken.ptr, size, call);
}

static void *refuse(int error)
{
    errno = error;
    return NULL;
}

/* Whether an allocation that got nothing should be tried again. Not if it was made to fail. */
static bool try_again(const void *ptr)
{
    return HF_UNLIKELY(ptr == NULL) && !hf_is_watched() && hf_guarded_yield();
}

/* A guarded sample, counted, if it is this thread's turn; mostly NULL. */
static void *sampled_now_and_then(size_t alignment, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(size > HF_SAMPLING_LARGE)) {
        hf_sampling_large();
        return NULL;
    }
    if (HF_LIKELY(!hf_sampling_is_due() && !hf_sampling_due()) || !hf_sampling_turn() ||
        hf_is_watched())
        return NULL;
    const struct hf_site site = hf_site_of(call.caller, call.function);
    void *ptr = hf_guarded_allocate(alignment, size, site,
                                    (enum hf_block_kind)hf_block_kinds[call.function]);
    if (ptr != NULL)
        (void)hf_count(site.object, HF_REPORT_ALLOCATED, size);
    return ptr;
}

void *hf_debug_heap_allocate(size_t alignment, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(size > HF_BLOCK_LIMIT))
        return refuse(ENOMEM);
    void *ptr = sampled_now_and_then(alignment, size, call);
    if (HF_UNLIKELY(ptr != NULL))
        return ptr;
    if (alignment == 0 && size <= HF_SMALL_MAX) {
        ptr = small(size, call);
        return try_again(ptr) ? small(size, call) : ptr;
    }
    if (alignment != 0 && hf_fail_here())
        return NULL;
    do
        ptr = alignment == 0 ? hf_plain_malloc(size + HF_FOOTER)
                             : hf_plain_aligned(alignment, size + HF_FOOTER);
    while (try_again(ptr));
    return handed_out(ptr, size, call);
}

void *hf_debug_heap_unmarked(void *ptr, size_t size, struct hf_call_site call)
{
    return try_again(ptr) ? hf_debug_heap_allocate(0, size, call) : handed_out(ptr, size, call);
}

void *hf_debug_heap_aligned(size_t alignment, size_t size, struct hf_call_site call)
{
    alignment = hf_round_alignment(alignment);
    return alignment != 0 ? hf_debug_heap_allocate(alignment, size, call) : refuse(EINVAL);
}

int hf_debug_heap_posix_memalign(void **out, size_t alignment, size_t size,
                                 struct hf_call_site call)
{
    if (!hf_is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved_errno = errno;
    void *ptr = hf_debug_heap_allocate(alignment, size, call);
    errno = saved_errno;
    if (ptr == NULL)
        return ENOMEM;
    *out = ptr;
    return 0;
}

void *hf_debug_heap_clear(size_t count, size_t size, struct hf_call_site call)
{
    size_t bytes;
    if (HF_UNLIKELY(__builtin_mul_overflow(count, size, &bytes) || bytes > HF_BLOCK_LIMIT))
        return refuse(ENOMEM);
    void *ptr = sampled_now_and_then(0, bytes, call);
    if (HF_UNLIKELY(ptr != NULL))
        return memset(ptr, 0, bytes);
    if (bytes <= HF_SMALL_MAX) {
        ptr = small(bytes, call);
        if (try_again(ptr))
            ptr = small(bytes, call);
        return HF_LIKELY(ptr != NULL) ? memset(ptr, 0, bytes) : NULL;
    }
    if (hf_fail_here())
        return NULL;
    do
        ptr = hf_plain_calloc(1, bytes + HF_FOOTER);
    while (try_again(ptr));
    return handed_out(ptr, bytes, call);
}

void *hf_debug_heap_claim(void *ptr, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(hf_guarded_holds(ptr))) {
        hf_guarded_claim(ptr, hf_site_of(call.caller, call.function),
                         (enum hf_block_kind)hf_block_kinds[call.function]);
        return ptr;
    }
    return handed_out(ptr, size, call);
}

/* ---- freeing ---- */

/* Counts a block that is freed or resized. If the call fits the block, the thread remembers it. */
static void count_freed(struct hf_footer footer, size_t asked, struct hf_site freed,
                        struct hf_call_site call)
{
    struct hf_report_pair *pair = hf_count(hf_site_object(footer.site), freed.object, asked);
    if (pair != NULL && footer.site != 0 && freed.number != 0 &&
        hf_fault_free_fits(footer.kind, call.function))
        hf_recent_freed(call, footer.site, footer.kind, freed.number, pair);
}

static bool find_form(enum hf_report_function function, enum hf_delete_form *form)
{
    switch (function) {
#define HF_DELETE(symbol, parameters, arguments, call, name, alignment) \
    case HF_FUNCTION_##symbol:                                          \
        *form = HF_DELETE_##name;                                       \
        return true;
#include "shim/functions.def"
    default:
        return false;
    }
}

/* By its allocator's operator of the same form, if that one tells the forms apart. */
static void dispatch(void *ptr, struct hf_stated stated, struct hf_call_site call)
{
    enum hf_delete_form form;
    const size_t alignment = stated.alignment != NULL ? *stated.alignment : 0;
    if (!find_form(call.function, &form) ||
        !hf_delete_foreign_for(ptr, form, alignment, call.caller))
        hf_watched_free(ptr, call);
}

void hf_debug_heap_free(void *ptr, struct hf_stated stated, struct hf_call_site call)
{
    struct hf_footer footer;
    if (ptr == NULL || hf_small_free(ptr, stated, call, HF_RECENT_SECOND))
        return;
    if (HF_UNLIKELY(!hf_block_has_footer(ptr))) {
        if (hf_fault_foreign(ptr, call))
            dispatch(ptr, stated, call);
        return;
    }
    if (HF_UNLIKELY(hf_guarded_holds(ptr))) {
        hf_guarded_free(ptr, stated, call);
        return;
    }
    size_t capacity = hf_heap_capacity(ptr);
    struct hf_site freed = hf_site_of(call.caller, call.function);
    if (HF_UNLIKELY(capacity == 0 || hf_footer_read(ptr, capacity, &footer) != HF_FOOTER_LIVE)) {
        if (hf_fault_no_block(ptr, capacity, freed.number))
            hf_watched_free(ptr, call);
        return;
    }
    size_t asked = hf_footer_asked(capacity, footer);
    count_freed(footer, asked, freed, call);
    if (HF_UNLIKELY(!hf_fault_free_fits(footer.kind, call.function)) || stated.size != NULL ||
        stated.alignment != NULL)
        hf_fault_check(ptr, footer, asked, stated, call.function, freed.number);
    hf_footer_write_freed(ptr, capacity, hf_footer_freed(footer.site, freed.number));
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
    if (!hf_guarded_may_resize(ptr, call))
        return refuse(ENOMEM);
    void *resized = size != 0 ? hf_debug_heap_allocate(0, size, call) : NULL;
    if (resized != NULL) {
        const size_t old = hf_guarded_block(ptr, &block);
        memcpy(resized, ptr, old < size ? old : size);
    }
    if (resized != NULL || size == 0)
        hf_guarded_free(ptr, HF_NOTHING_STATED, call);
    return resized;
}

/* A small block stays where it is only within its size class. Moving it here, and not in the plain
 * heap, leaves a freed block's footer behind. */
static void *resize_small(void *ptr, const struct hf_small *block, size_t size, uint64_t freed,
                          struct hf_call_site call)
{
    const size_t smaller = block->class != 0 ? hf_class_sizes[block->class - 1] : 0;
    if (size + HF_FOOTER > smaller && size + HF_FOOTER <= block->capacity) {
        if (hf_is_watched())
            hf_watched_resized_here(ptr, size, call);
        return hf_block_mark(ptr, block->capacity, size, call);
    }
    void *resized = hf_debug_heap_allocate(0, size, call);
    if (HF_UNLIKELY(resized == NULL))
        return NULL;
    memcpy(resized, ptr, size < block->capacity - HF_FOOTER ? size : block->capacity - HF_FOOTER);
    hf_footer_write_freed(ptr, block->capacity, freed);
    hf_heap_return(ptr);
    return resized;
}

/* The same where nothing is remembered of such a call, and for large blocks. */
static void *resize_other(void *ptr, size_t size, struct hf_call_site call)
{
    struct hf_footer footer;
    struct hf_small block;
    if (HF_UNLIKELY(hf_guarded_holds(ptr)))
        return resize_sampled(ptr, size, call);
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    struct hf_site site = hf_site_of(call.caller, call.function);
    if (HF_UNLIKELY(hosted != NULL))
        return hf_fault_no_block(ptr, 0, site.number) ? hosted->realloc(ptr, size, call.caller)
                                                      : refuse(ENOMEM);
    size_t capacity = hf_heap_capacity(ptr), asked = 0;
    bool is_block = capacity != 0 && hf_footer_read(ptr, capacity, &footer) == HF_FOOTER_LIVE;
    if (HF_UNLIKELY(!is_block) && !hf_fault_no_block(ptr, capacity, site.number))
        return refuse(ENOMEM);
    if (size == 0) {
        hf_debug_heap_free(ptr, HF_NOTHING_STATED, call);
        return NULL;
    }
    if (HF_LIKELY(is_block)) {
        asked = hf_footer_asked(capacity, footer);
        if (HF_UNLIKELY(!hf_fault_free_fits(footer.kind, call.function)))
            hf_fault_check(ptr, footer, asked, HF_NOTHING_STATED, call.function, site.number);
    }
    void *resized;
    if (HF_LIKELY(is_block) && hf_small_find(ptr, &block)) {
        resized = resize_small(ptr, &block, size, hf_footer_freed(footer.site, site.number), call);
    } else {
        do
            resized = hf_plain_realloc(ptr, size + HF_FOOTER,
                                       hf_is_watched() ? hf_watched_caller(call) : call.caller);
        while (try_again(resized));
        resized = marked(resized, size, call);
    }
    if (HF_LIKELY(resized != NULL && is_block))
        count_freed(footer, asked, site, call);
    return resized;
}

void *hf_debug_heap_resize(void *ptr, size_t size, struct hf_call_site call)
{
    struct hf_small block;
    struct hf_recent *recent;
    if (ptr == NULL)
        return hf_debug_heap_allocate(0, size, call);
    if (HF_UNLIKELY(!hf_block_has_footer(ptr)))
        return resize_elsewhere(ptr, size, call);
    if (HF_UNLIKELY(size > HF_BLOCK_LIMIT))
        return refuse(ENOMEM);
    if (HF_LIKELY(size != 0 && hf_small_find(ptr, &block)) &&
        (hf_recent_free(ptr, block.word, call, 0, &recent) ||
         hf_recent_free(ptr, block.word, call, HF_RECENT_SECOND, &recent))) {
        struct hf_report_pair *pair = recent->pair;
        void *resized = resize_small(ptr, &block, size, recent->freed, call);
        if (HF_LIKELY(resized != NULL))
            hf_count_again(pair, hf_small_asked(&block));
        return resized;
    }
    return resize_other(ptr, size, call);
}

static size_t without_footer(const void *ptr, size_t capacity)
{
    return capacity - hf_footer_size(ptr, capacity);
}

size_t hf_debug_heap_usable(const void *ptr, struct hf_call_site call)
{
    if (ptr == NULL)
        return 0;
    if (!hf_owned(ptr))
        return hf_usable_size_foreign(ptr);
    if (hf_forward != NULL)
        return hf_forward->usable_size(ptr);
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    return hosted != NULL ? hosted->usable_size(ptr, call.caller)
                          : without_footer(ptr, hf_plain_usable(ptr, call.caller));
}

/* ---- the front end's other names ---- */

/* Who calls these is libhomefree itself. */

/* Without the guards of checks:full, which would lie where the footers are. */
bool hf_heap_boot(enum hf_checks checks)
{
    (void)checks;
    return hf_plain_boot(HF_CHECKS_DIAGNOSED);
}

size_t hf_heap_usable(const void *ptr, const void *caller)
{
    if (HF_UNLIKELY(hf_guarded_holds(ptr)))
        return hf_hosted_of(ptr)->usable_size(ptr, caller);
    return without_footer(ptr, hf_plain_usable(ptr, caller));
}

size_t hf_heap_asked(const void *ptr, const void *caller)
{
    if (HF_UNLIKELY(hf_guarded_holds(ptr)))
        return hf_hosted_of(ptr)->usable_size(ptr, caller);
    return without_footer(ptr, hf_plain_asked(ptr, caller));
}

size_t hf_heap_block(const void *ptr, const void **block)
{
    if (HF_UNLIKELY(hf_guarded_holds(ptr)))
        return hf_guarded_block(ptr, block);
    size_t size = hf_plain_block(ptr, block);
    return size != 0 ? without_footer(*block, size) : 0;
}
