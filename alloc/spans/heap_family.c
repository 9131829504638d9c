/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot functions of the front end (heap/front_end.h): hf_malloc and hf_free, each one function
 * with the ownership test and the fast paths of small.h, and those that realloc, aligned_alloc and
 * the debug heap try first. Owns nothing.
 *
 * Any function here may be the first that the process calls. The fast paths fail in a thread
 * without a local heap, in a copy that forwards, and while somebody watches; the slow ones begin
 * with hf_enter(), which starts the heap if necessary. A slow path is reached by a jump, so that
 * the return address is that of the caller.
 */
#include "alloc/spans/call.h"
#include "alloc/spans/deferred.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/heap_blocks.h"
#include "alloc/spans/limited_blocks.h"
#include "alloc/spans/lookup.h"
#include "alloc/spans/samples.h"

#include <errno.h>
#include <string.h>

#define NO_INLINE __attribute__((noinline))

/* ---- malloc ---- */

static NO_INLINE void *malloc_watched(size_t size, const void *caller)
{
    if (hf_fail_now()) {
        errno = ENOMEM;
        return NULL;
    }
    void *ptr = hf_block_new((struct hf_request){.size = size});
    if (ptr != NULL)
        hf_watch_allocated(ptr, size, caller);
    return ptr;
}

static NO_INLINE void *malloc_slow(size_t size)
{
    struct hf_pass pass;
    if (HF_UNLIKELY(hf_forward != NULL))
        return hf_forward->malloc(size);
    if (HF_UNLIKELY(hf_hardened != 0) && !hf_is_watched() && !hf_samples_are_on()) {
        void *ptr = hf_hardened_malloc(size);
        if (HF_LIKELY(ptr != NULL))
            return ptr;
    }
    if (HF_UNLIKELY(!hf_enter_patiently(&pass)))
        return hf_fork_aligned(0, size);
    /* Entering may have shown that another copy is the heap. */
    void *ptr;
    if (HF_UNLIKELY(hf_forward != NULL))
        ptr = hf_forward->malloc(size);
    else if (hf_is_watched())
        ptr = malloc_watched(size, __builtin_return_address(0));
    else
        ptr = hf_block_new((struct hf_request){.size = size});
    hf_gate_leave(&pass);
    return ptr;
}

/* Not with hf_malloc's own local heap and class: keeping them would be an instruction there. */
static NO_INLINE void *malloc_small_slow(size_t size)
{
    if (hf_samples_are_on()) {
        void *ptr = hf_samples_take(hf_local_get(), hf_class_of(size), size);
        if (HF_LIKELY(ptr != NULL))
            return ptr;
    }
    return malloc_slow(size);
}

void *hf_malloc(size_t size)
{
    if (HF_UNLIKELY(size > HF_LARGEST))
        return malloc_slow(size);
    void *ptr = hf_small_take(hf_local_get(), hf_class_now(size));
    return HF_LIKELY(ptr != NULL) ? ptr : malloc_small_slow(size);
}

static NO_INLINE void *aligned_counted(size_t alignment, size_t size)
{
    const unsigned class = hf_class_aligned(hf_class_table, alignment, size);
    return hf_samples_are_on() && class < HF_CLASSES ? hf_samples_take(hf_local_get(), class, size)
                                                     : NULL;
}

/* Every block of a class is aligned to the powers of two, up to a page, that divide its size. */
void *hf_heap_aligned_cached(size_t alignment, size_t size)
{
    if (HF_UNLIKELY(size == 0))
        return NULL;
    const unsigned class = hf_class_aligned(hf_samples.it.classes, alignment, size);
    return HF_LIKELY(class < HF_CLASSES) ? hf_small_take(hf_local_get(), class)
                                         : aligned_counted(alignment, size);
}

static NO_INLINE struct hf_taken take_slow(size_t size)
{
    struct hf_taken taken = {malloc_slow(size), 0};
    if (HF_LIKELY(hf_forward == NULL) && !hf_is_watched() && hf_owned(taken.ptr))
        taken.size = hf_heap_capacity(taken.ptr);
    return taken;
}

struct hf_taken hf_heap_take(size_t size)
{
    const unsigned class = hf_class_of(size);
    void *ptr = hf_small_take(hf_local_get(), class);
    return HF_LIKELY(ptr != NULL) ? (struct hf_taken){ptr, hf_class_sizes[class]} : take_slow(size);
}

/* ---- free ---- */

static NO_INLINE void free_outside(void *ptr)
{
    if (HF_UNLIKELY(hf_owned(ptr)))
        hf_forward->free(ptr);
    else
        hf_free_foreign(ptr);
}

static NO_INLINE void free_slow(void *ptr, const void *caller)
{
    struct hf_pass pass;
    if (HF_UNLIKELY(hf_hosted_free(ptr, caller)))
        return;
    const int saved_errno = errno;
    if (HF_LIKELY(hf_enter(&pass))) {
        hf_block_check(ptr, caller, HF_CORRUPT_IN_FREE);
        if (hf_is_watched())
            hf_watch_freed(ptr, caller);
        hf_block_give(ptr, caller);
        hf_gate_leave(&pass);
    } else {
        hf_block_check(ptr, caller, HF_CORRUPT_IN_FREE);
        hf_defer_free(ptr, caller);
    }
    errno = saved_errno;
}

/* A block of another thread's local heap, or of no thread's, whatever the calling thread is: takes
 * no lock, and waits for nobody. Reached by a jump. */
static NO_INLINE void free_elsewhere(void *ptr, struct hf_entry *entry)
{
    if (HF_UNLIKELY(hf_is_watched()) ||
        HF_UNLIKELY(hf_hardened != 0 ? !hf_hardened_free(ptr, entry, __builtin_return_address(0))
                                     : !hf_small_give_remote(ptr, entry)))
        free_slow(ptr, __builtin_return_address(0));
}

/* The thread has more at hand than it may. Reached by a jump. */
static NO_INLINE void free_much(void *ptr, struct hf_entry *entry, uint8_t *state)
{
    struct hf_local *local = hf_local_get();
    const unsigned limit = hf_limited_of_state(__atomic_load_n(state, __ATOMIC_RELAXED));
    hf_limited_put_back(local, limit, hf_class_sizes[entry->class]);
    hf_small_put(local, ptr, entry, state);
}

/* A block of the calling thread's that is not just live. Reached by a jump. */
static NO_INLINE void free_marked(void *ptr, struct hf_entry *entry)
{
    struct hf_local *local = hf_local_get();
    uint8_t *state = hf_limited_own(ptr, entry);
    if (HF_UNLIKELY(state == NULL)) {
        free_slow(ptr, __builtin_return_address(0));
        return;
    }
    const uint8_t now = __atomic_load_n(state, __ATOMIC_RELAXED);
    int32_t *at_hand = &local->at_hand[hf_limited_of_state(now)];
    const int32_t then = *at_hand + (int32_t)hf_class_sizes[entry->class];
    if (HF_UNLIKELY(then > HF_LIMITED_AT_HAND)) {
        free_much(ptr, entry, state);
        return;
    }
    *at_hand = then;
    hf_small_put(local, ptr, entry, state);
}

HF_ALWAYS_INLINE void free_owned(void *ptr)
{
    struct hf_entry *entry = hf_entry_of(ptr);
    const enum hf_small_given given = hf_small_try(hf_local_get(), ptr, entry);
    if (HF_UNLIKELY(given == HF_SMALL_ELSEWHERE))
        free_elsewhere(ptr, entry);
    else if (HF_UNLIKELY(given == HF_SMALL_STATE))
        free_marked(ptr, entry);
}

void hf_free(void *ptr)
{
    if (HF_UNLIKELY(!hf_has_entry(ptr))) {
        free_outside(ptr);
        return;
    }
    free_owned(ptr);
}

void hf_heap_return(void *ptr)
{
    free_owned(ptr);
}

/* Not of the class that the size would get: it may have been asked for with any alignment that it
 * has. What is not a live block is left to free(). */
static NO_INLINE bool is_sized_for_alignment(const void *ptr, const struct hf_entry *entry,
                                             size_t size)
{
    for (size_t alignment = HF_GRAIN; ((uintptr_t)ptr & (alignment - 1)) == 0; alignment *= 2) {
        const unsigned class = hf_class_aligned(hf_class_table, alignment, size);
        if (class == HF_CLASSES)
            break;
        if (class == entry->class)
            return true;
    }
    return hf_span_check(ptr, entry) >= 0;
}

bool hf_heap_is_sized(const void *ptr, size_t size)
{
    if (HF_UNLIKELY(hf_checks_full))
        return false;
    if (HF_UNLIKELY(!hf_has_entry(ptr)))
        return true;
    const struct hf_entry *entry = hf_entry_of(ptr);
    if (HF_LIKELY(hf_entry_has_span(entry)))
        return (HF_LIKELY(size <= HF_LARGEST) && HF_LIKELY(entry->class == hf_class_of(size))) ||
               is_sized_for_alignment(ptr, entry, size);
    int wrong;
    const size_t capacity = hf_large_check(ptr, &wrong);
    return capacity == 0 || (hf_large_asked(ptr) <= size && size <= capacity);
}

/* ---- realloc ---- */

HF_ALWAYS_INLINE void *move(struct hf_local *local, struct hf_entry *entry, void *ptr, void *moved,
                            size_t size)
{
    const size_t before = hf_class_sizes[entry->class];
    memcpy(moved, ptr, size < before ? size : before);
    (void)hf_small_give(local, ptr, entry);
    return moved;
}

static NO_INLINE void *realloc_counted(struct hf_local *local, struct hf_entry *entry, void *ptr,
                                       size_t size)
{
    const unsigned class = hf_class_of(size);
    if (!hf_samples_are_on())
        return NULL;
    if (entry->class == class)
        return ptr;
    void *moved = __atomic_load_n(&entry->owner, __ATOMIC_RELAXED) == local
                      ? hf_samples_take(local, class, size)
                      : NULL;
    return moved != NULL ? move(local, entry, ptr, moved, size) : NULL;
}

/* A block that is not live is left to the slow path, which ends the process. */
void *hf_heap_realloc_cached(void *ptr, size_t size)
{
    uint8_t *state;
    struct hf_local *local = hf_local_get();
    if (HF_UNLIKELY(!hf_has_entry(ptr)) || size - 1 >= HF_LARGEST || local == &hf_local_none ||
        HF_UNLIKELY(local == &hf_local_ended))
        return NULL;
    struct hf_entry *entry = hf_entry_of(ptr);
    if (!hf_entry_has_span(entry) || HF_UNLIKELY(!hf_entry_state(entry, ptr, &state)) ||
        HF_UNLIKELY(__atomic_load_n(state, __ATOMIC_RELAXED) != HF_LIVE))
        return NULL;
    const unsigned class = hf_class_now(size);
    if (entry->class == class)
        return ptr;
    void *moved = __atomic_load_n(&entry->owner, __ATOMIC_RELAXED) == local
                      ? hf_small_take(local, class)
                      : NULL;
    return HF_LIKELY(moved != NULL) ? move(local, entry, ptr, moved, size)
                                    : realloc_counted(local, entry, ptr, size);
}
