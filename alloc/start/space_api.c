/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exported functions of homefree/space.h, which every instance of libhomefree forwards to the
 * heap's copy. Owns nothing, takes no lock. Any stage: the first call starts the heap.
 */
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "alloc/space/space_calls.h"
#include "alloc/trace/watch.h"

#include <errno.h>

/* What the copy that is the heap offers, this one or another; NULL beside a heap that has no
 * spaces. */
static const struct hf_space_functions *spaces(void)
{
    const struct hf_instance_functions *other = hf_instance_other();
    return HF_LIKELY(other == NULL) ? &hf_spaces_here : other->spaces;
}

/* The satellite, while nobody has to be told of its blocks. */
static inline const struct hf_cuda_satellite *unwatched(void)
{
    return HF_LIKELY(!__atomic_load_n(&hf_watching, __ATOMIC_RELAXED)) ? hf_cuda_opened() : NULL;
}

static int alloc_host(void **out, size_t size, size_t alignment, const void *caller)
{
    if (out == NULL || (alignment & (alignment - 1)) != 0 || alignment > HF_PAGE_2M)
        return -EINVAL;
    int saved_errno = errno;
    void *ptr = alignment != 0 ? hf_memalign(alignment, size) : hf_malloc(size);
    errno = saved_errno;
    if (ptr == NULL)
        return -ENOMEM;
    *out = hf_watch_given(ptr, size, caller);
    return 0;
}

static __attribute__((noinline)) int alloc_slowly(void **out, enum hf_space_kind kind, int device,
                                                  size_t size, size_t alignment, void *stream,
                                                  const void *caller)
{
    if (kind == HF_SPACE_HOST)
        return alloc_host(out, size, alignment, caller);
    const struct hf_space_functions *to = spaces();
    if (to == &hf_spaces_here)
        return hf_space_alloc_for(out, kind, device, size, alignment, stream, caller);
    return to != NULL ? to->alloc(out, kind, device, size, alignment, stream) : -ENOTSUP;
}

int hf_space_alloc(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                   void *stream)
{
    const struct hf_cuda_satellite *cuda = unwatched();
    if (HF_LIKELY(cuda != NULL && kind != HF_SPACE_HOST))
        return cuda->spaces.alloc(out, kind, device, size, alignment, stream);
    return alloc_slowly(out, kind, device, size, alignment, stream, __builtin_return_address(0));
}

static __attribute__((noinline)) int free_slowly(void *ptr, void *stream, const void *caller)
{
    const struct hf_space_functions *to = spaces();
    if (to == &hf_spaces_here)
        return hf_space_free_for(ptr, stream, caller);
    if (to != NULL)
        return to->free(ptr, stream);
    hf_free(ptr);
    return 0;
}

int hf_space_free(void *ptr, void *stream)
{
    const struct hf_cuda_satellite *cuda = unwatched();
    if (HF_LIKELY(cuda != NULL))
        return cuda->spaces.free(ptr, stream);
    return free_slowly(ptr, stream, __builtin_return_address(0));
}

int hf_space_use(void *ptr, void *stream)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->use(ptr, stream) : -EINVAL;
}

int hf_space_order(int device, void *before, void *after)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL && to->order != NULL ? to->order(device, before, after) : -ENOTSUP;
}

int hf_space_of(const void *ptr, struct hf_space *out)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->of(ptr, out) : -ENOENT;
}

int hf_space_stats(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->stats(kind, device, stream, out) : -ENOTSUP;
}

int hf_space_limit(enum hf_space_kind kind, int device, uint64_t bytes)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->limit(kind, device, bytes) : -ENOTSUP;
}

int hf_space_trim(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->trim(kind, device, keep, released) : -ENOTSUP;
}

int hf_space_reason(enum hf_space_kind kind, int device, char *text, size_t size)
{
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->reason(kind, device, text, size) : -ENOTSUP;
}
