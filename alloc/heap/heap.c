/*
 * The hf_* family, but for hf_malloc and hf_free, which are one function each with jemalloc's fast
 * paths (jemalloc/fast_path.h). Owns nothing. May be called at any stage: each entry starts the
 * heap if nobody has.
 */
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/hosted.h"
#include "alloc/trace/watch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* What to call instead of the heap of this copy; NULL where this copy is the heap. */
static inline const struct hf_heap_functions *forward(void)
{
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    return hf_forward;
}

static bool is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Up to here, clearing what hf_malloc's fast path gives beats jemalloc's calloc, which has none. */
#define CLEARED_HERE 2048

void *hf_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes <= CLEARED_HERE) {
        void *ptr = hf_malloc(bytes);
        return HF_LIKELY(ptr != NULL) ? memset(HF_FOR_CALLER(ptr, bytes), 0, bytes) : NULL;
    }
    const struct hf_heap_functions *other = forward();
    if (HF_UNLIKELY(other != NULL))
        return other->calloc(count, size);
    return HF_FOR_CALLER(hf_heap_calloc(count, size), bytes);
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
    return hf_realloc_for(ptr, size, __builtin_return_address(0));
}

void *hf_reallocarray(void *ptr, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return hf_realloc(ptr, bytes);
}

/* glibc rounds an alignment up that is no power of two, and so do we: programs rely on it. */
void *hf_memalign(size_t alignment, size_t size)
{
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    if (!is_power_of_two(alignment))
        alignment = (SIZE_MAX / 2 + 1) >> (__builtin_clzl(alignment) - 1);
    const struct hf_heap_functions *other = forward();
    if (HF_UNLIKELY(other != NULL))
        return other->aligned(alignment, size);
    return HF_FOR_CALLER(hf_heap_aligned(alignment, size), size);
}

void *hf_aligned_alloc(size_t alignment, size_t size)
{
    return hf_memalign(alignment, size);
}

int hf_posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved_errno = errno;
    void *ptr = hf_memalign(alignment, size);
    errno = saved_errno;
    if (ptr == NULL)
        return ENOMEM;
    *out = HF_FOR_CALLER(ptr, size);
    return 0;
}

/* With checks:full, what the caller of a free says of its block is compared with the block. */
__attribute__((noinline, cold)) void hf_check_freed(const void *ptr, const size_t *alignment,
                                                    const size_t *size, const void *caller)
{
    const struct hf_instance_functions *other = hf_instance_forward();
    if (HF_UNLIKELY(other != NULL)) {
        other->check_freed(ptr, alignment, size, caller);
        return;
    }
    if (ptr == NULL || !hf_owned(ptr) || hf_hosted_of(ptr) != NULL)
        return;
    size_t asked = hf_heap_asked(ptr, caller);
    if (alignment != NULL && (!is_power_of_two(*alignment) || (uintptr_t)ptr % *alignment != 0))
        hf_heap_wrong_alignment(ptr, caller, *alignment);
    if (size != NULL && *size != asked)
        hf_heap_wrong_size(ptr, caller, asked, *size);
}

void hf_free_sized(void *ptr, size_t size)
{
    if (HF_UNLIKELY(hf_checks_full))
        hf_check_freed(ptr, NULL, &size, __builtin_return_address(0));
    hf_free(ptr);
}

void hf_free_aligned(void *ptr, size_t alignment)
{
    if (HF_UNLIKELY(hf_checks_full))
        hf_check_freed(ptr, &alignment, NULL, __builtin_return_address(0));
    hf_free(ptr);
}

void hf_free_aligned_sized(void *ptr, size_t alignment, size_t size)
{
    if (HF_UNLIKELY(hf_checks_full))
        hf_check_freed(ptr, &alignment, &size, __builtin_return_address(0));
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

const char *hf_version(void)
{
    return HF_VERSION;
}
