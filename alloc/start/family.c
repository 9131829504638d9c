/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The malloc family that every instance of libhomefree exports, and that forwards to the heap's
 * copy. hf_malloc and hf_free forward by themselves: each is one function with the fast paths
 * (spans/heap_family.c). Owns nothing, takes no lock. Callable at any stage: an entry that needs
 * the heap starts it.
 *
 * libhomefree-diagnose.so has diagnose/debug_heap_family.c instead.
 */
#include "alloc/start/family.h"

#include "alloc/base/alignment.h"
#include "alloc/base/libc_functions.h"
#include "alloc/heap/instance.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/fail.h"

#include <errno.h>
#include <string.h>

/* The functions to call instead of this copy's heap; NULL if this copy is the heap. */
static inline const struct hf_heap_functions *forward(void)
{
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    return hf_forward;
}

/* The two that have no slow path of their own, while a watch is open or calls are counted. */

static __attribute__((noinline, cold)) void *watched_calloc(size_t count, size_t size,
                                                            const void *caller)
{
    if (hf_fail_here())
        return NULL;
    return hf_watch_given(hf_heap_calloc(count, size), count * size, caller);
}

static __attribute__((noinline, cold)) void *watched_memalign(size_t alignment, size_t size,
                                                              const void *caller)
{
    if (hf_fail_here())
        return NULL;
    return hf_watch_given(hf_heap_aligned(alignment, size), size, caller);
}

static inline bool is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

void *hf_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= HF_FAST_MAX) {
        void *ptr = hf_malloc(bytes);
        return HF_LIKELY(ptr != NULL) ? memset(HF_FOR_CALLER(ptr, bytes), 0, bytes) : NULL;
    }
    const struct hf_heap_functions *other = forward();
    if (HF_UNLIKELY(other != NULL))
        return other->calloc(count, size);
    if (is_watched())
        return watched_calloc(count, size, __builtin_return_address(0));
    return hf_heap_calloc(count, size);
}

void *hf_realloc_for(void *ptr, size_t size, const void *caller)
{
    const struct hf_heap_functions *other = forward();
    if (HF_UNLIKELY(!hf_owned(ptr)))
        return hf_realloc_foreign(ptr, size, caller);
    if (HF_UNLIKELY(other != NULL))
        return other->realloc(ptr, size);
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    return HF_UNLIKELY(hosted != NULL) ? hosted->realloc(ptr, size, caller)
                                       : hf_heap_realloc(ptr, size, caller);
}

void *hf_realloc(void *ptr, size_t size)
{
    if (ptr == NULL)
        return hf_malloc(size);
    void *resized = hf_heap_realloc_cached(ptr, size);
    return HF_LIKELY(resized != NULL) ? resized
                                      : hf_realloc_for(ptr, size, __builtin_return_address(0));
}

void *hf_reallocarray(void *ptr, size_t count, size_t size)
{
    size_t bytes;
    if (!hf_array_size(count, size, &bytes))
        return NULL;
    if (HF_UNLIKELY(hf_array_is_served_in_front(ptr)))
        return hf_libc()->realloc(NULL, bytes);
    return hf_realloc(ptr, bytes);
}

void *hf_memalign(size_t alignment, size_t size)
{
    alignment = hf_round_alignment(alignment);
    if (alignment == 0) {
        errno = EINVAL;
        return NULL;
    }
    void *cached = hf_heap_aligned_cached(alignment, size);
    if (HF_LIKELY(cached != NULL))
        return cached;
    const struct hf_heap_functions *other = forward();
    if (HF_UNLIKELY(other != NULL))
        return other->aligned(alignment, size);
    if (is_watched())
        return watched_memalign(alignment, size, __builtin_return_address(0));
    return hf_heap_aligned(alignment, size);
}

void *hf_aligned_alloc(size_t alignment, size_t size)
{
    return hf_memalign(alignment, size);
}

int hf_posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!hf_is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    void *ptr = hf_heap_aligned_cached(alignment, size);
    if (HF_UNLIKELY(ptr == NULL)) {
        int saved_errno = errno;
        ptr = hf_memalign(alignment, size);
        errno = saved_errno;
    }
    if (ptr == NULL)
        return ENOMEM;
    *out = HF_FOR_CALLER(ptr, size);
    return 0;
}

/* Who allocated the block may have rounded the size up, as libstdc++'s operator new does. */
static bool is_sized(const void *ptr, size_t alignment, size_t size)
{
    return hf_heap_is_sized(ptr, size) ||
           hf_heap_is_sized(ptr, (size + alignment - 1) & -alignment);
}

__attribute__((noinline, cold)) void hf_check_freed(const void *ptr, const size_t *alignment,
                                                    const size_t *size, const void *caller)
{
    const struct hf_instance_functions *other = hf_instance_forward();
    if (HF_UNLIKELY(other != NULL)) {
        if (other->check_freed != NULL)
            other->check_freed(ptr, alignment, size, caller);
        return;
    }
    if (ptr == NULL || !hf_owned(ptr) || hf_hosted_of(ptr) != NULL)
        return;
    const size_t asked = hf_heap_asked(ptr, caller);
    if (hf_checks_full && alignment != NULL &&
        (!hf_is_power_of_two(*alignment) || (uintptr_t)ptr % *alignment != 0))
        hf_heap_wrong_alignment(ptr, caller, *alignment);
    if (size != NULL &&
        (hf_checks_full ? *size != asked
                        : !is_sized(ptr, alignment != NULL ? *alignment : 1, *size)))
        hf_heap_wrong_size(ptr, caller, asked, *size);
}

/* Apart, because a function that hands out the address of a parameter cannot end in a jump:
 * hf_free() would take libhomefree for its caller. */
static __attribute__((noinline, cold)) void check_size(const void *ptr, size_t size,
                                                       const void *caller)
{
    hf_check_freed(ptr, NULL, &size, caller);
}

static __attribute__((noinline, cold)) void check_alignment(const void *ptr, size_t alignment,
                                                            const void *caller)
{
    hf_check_freed(ptr, &alignment, NULL, caller);
}

static __attribute__((noinline, cold)) void check_both(const void *ptr, size_t alignment,
                                                       size_t size, const void *caller)
{
    hf_check_freed(ptr, &alignment, &size, caller);
}

void hf_free_named(void *ptr, const char *function)
{
    (void)function;
    hf_free(ptr);
}

void hf_free_sized(void *ptr, size_t size)
{
    if (HF_UNLIKELY(!hf_heap_is_sized(ptr, size)))
        check_size(ptr, size, __builtin_return_address(0));
    hf_free(ptr);
}

void hf_free_aligned(void *ptr, size_t alignment)
{
    if (HF_UNLIKELY(hf_checks_full))
        check_alignment(ptr, alignment, __builtin_return_address(0));
    hf_free(ptr);
}

void hf_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
    if (HF_UNLIKELY(!hf_heap_is_sized(ptr, size)))
        check_both(ptr, alignment, size, __builtin_return_address(0));
    hf_free(ptr);
}

size_t hf_usable_size(const void *ptr)
{
    if (ptr == NULL)
        return 0;
    const struct hf_heap_functions *other = forward();
    if (!hf_owned(ptr))
        return hf_usable_size_foreign(ptr);
    if (HF_UNLIKELY(other != NULL))
        return other->usable_size(ptr);
    const struct hf_hosted *hosted = hf_hosted_of(ptr);
    return HF_UNLIKELY(hosted != NULL) ? hosted->usable_size(ptr, __builtin_return_address(0))
                                       : hf_heap_usable(ptr, __builtin_return_address(0));
}

char *hf_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = HF_FOR_CALLER(hf_malloc(size), size);
    return copy != NULL ? memcpy(copy, s, size) : NULL;
}

char *hf_strndup(const char *s, size_t n)
{
    size_t length = strnlen(s, n);
    char *copy = HF_FOR_CALLER(hf_malloc(length + 1), length + 1);
    if (copy == NULL)
        return NULL;
    copy[length] = '\0';
    return memcpy(copy, s, length);
}

bool hf_delete_foreign(void *ptr, enum hf_delete_form form, size_t alignment)
{
    return hf_delete_foreign_for(ptr, form, alignment, __builtin_return_address(0));
}
