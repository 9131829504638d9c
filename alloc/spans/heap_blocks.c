/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See heap_blocks.h.
 */
#include "alloc/spans/heap_blocks.h"

#include "alloc/base/fork_lock.h"
#include "alloc/pages/pages.h"
#include "alloc/spans/guards.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/lookup.h"
#include "alloc/spans/own_heap.h"
#include "alloc/spans/samples.h"
#include "alloc/spans/supply.h"
#include "alloc/spans/tick.h"

#include <errno.h>
#include <string.h>

/* ---- taking ---- */

static void *take_large(struct hf_request request)
{
    if (HF_UNLIKELY(hf_hardened != 0))
        return hf_hardened_take_large(request.size, request.alignment, request.zeroed);
    return hf_large_take(request.size, request.alignment, request.zeroed);
}

static void *take_small(struct hf_local *local, unsigned class, size_t size)
{
    if (HF_UNLIKELY(hf_hardened != 0) && class != HF_CLASS_NOTHING)
        return hf_hardened_take(local, class, size);
    return hf_span_take(local, class);
}

static void *take(struct hf_request request)
{
    const size_t capacity = hf_guard_capacity(request.size);
    const unsigned class = request.alignment > HF_GRAIN
                               ? hf_class_aligned(hf_class_table, request.alignment, capacity)
                           : capacity <= HF_LARGEST ? hf_class_of(capacity)
                                                    : HF_CLASSES;
    void *ptr;
    if (class == HF_CLASSES) {
        ptr = take_large(request);
        if (HF_UNLIKELY(request.heap != NULL) && ptr != NULL)
            hf_large_set_heap(ptr, request.heap);
        return ptr;
    }
    if (HF_UNLIKELY(request.heap != NULL)) {
        pthread_mutex_lock(&request.heap->lock);
        ptr = take_small(request.heap->local, class, request.size);
        pthread_mutex_unlock(&request.heap->lock);
    } else {
        struct hf_local *local = hf_local_use();
        ptr = HF_LIKELY(local != NULL) ? take_small(local, class, request.size) : NULL;
        hf_local_done(local);
    }
    if (ptr != NULL && request.zeroed)
        memset(ptr, 0, request.size);
    return ptr;
}

/*
 * Makes room after a failed allocation: whatever is kept for reuse and can be had without its
 * thread goes back to the pages, and all free pages to the region and the system. Another thread
 * may take the space first, hence several tries.
 */
enum { RETRIES = 3 };
static pthread_mutex_t HF_FORK_LOCK capacity_lock = PTHREAD_MUTEX_INITIALIZER;

static void make_capacity(void)
{
    pthread_mutex_lock(&capacity_lock);
    struct hf_local *local = hf_local_use();
    if (local != NULL)
        hf_spans_drain(local);
    hf_local_done(local);
    if (HF_UNLIKELY(hf_hardened != 0))
        hf_hardened_empty();
    hf_large_empty();
    hf_spans_trim(true);
    hf_pages_purge();
    pthread_mutex_unlock(&capacity_lock);
}

void *hf_block_new(struct hf_request request)
{
    void *ptr = NULL;
    if (HF_LIKELY(request.size <= PTRDIFF_MAX)) {
        ptr = take(request);
        for (int i = 0; HF_UNLIKELY(ptr == NULL) && i < RETRIES && request.size <= hf_region.limit;
             i++) {
            make_capacity();
            ptr = take(request);
        }
    }
    hf_tick();
    if (HF_LIKELY(ptr != NULL))
        hf_samples_count(ptr, request.size);
    else
        errno = ENOMEM;
    return ptr;
}

/* ---- looking, giving back ---- */

static size_t check(const void *ptr, const void *caller, enum hf_corruption purpose, int *wrong)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    size_t size;
    if (HF_LIKELY(hf_entry_has_span(entry))) {
        *wrong = hf_span_check(ptr, entry);
        size = hf_class_sizes[entry->class];
    } else if (HF_UNLIKELY(hf_hardened != 0)) {
        return hf_hardened_check_large(ptr, caller, purpose, wrong);
    } else {
        size = hf_large_check(ptr, wrong);
    }
    if (HF_UNLIKELY(*wrong == HF_CORRUPT_NO_BLOCK) && hf_span_was(ptr, entry))
        *wrong = HF_CORRUPT_FREED;
    if (HF_UNLIKELY(hf_hardened != 0) && *wrong < 0)
        size = hf_guard_verify(ptr, size, caller, purpose);
    return size;
}

size_t hf_block_check(const void *ptr, const void *caller, enum hf_corruption purpose)
{
    int wrong;
    const size_t size = check(ptr, caller, purpose, &wrong);
    if (HF_UNLIKELY(wrong >= 0))
        hf_heap_corrupted(ptr, caller, purpose, (enum hf_corruption_kind)wrong);
    return size;
}

void hf_block_give(void *ptr, const void *caller)
{
    struct hf_entry *entry = hf_entry_of(ptr);
    int wrong;
    hf_samples_end(ptr);
    if (HF_LIKELY(hf_entry_has_span(entry))) {
        struct hf_local *local = hf_local_own();
        wrong = HF_LIKELY(hf_hardened == 0) ? hf_span_give(local, ptr, entry)
                                            : hf_hardened_give(local, ptr, entry, caller);
    } else {
        hf_tick();
        wrong = HF_LIKELY(hf_hardened == 0) ? hf_large_give(ptr) : hf_hardened_give_large(ptr);
        hf_tick_freed();
    }
    if (HF_UNLIKELY(wrong >= 0))
        hf_heap_corrupted(ptr, caller, HF_CORRUPT_IN_FREE, (enum hf_corruption_kind)wrong);
}
