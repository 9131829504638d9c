/*
 * The exported functions of homefree/space.h, which every copy of libhomefree forwards to the
 * heap's copy; the two that have fast paths begin in spans/ground_fast.c. Owns nothing, takes no
 * lock. Any stage: the first call starts the heap.
 */
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "alloc/space/spaces.h"
#include "alloc/trace/watch.h"

#include <errno.h>

/* The copy that is the heap; NULL if that is this one. */
static const struct hf_instance_functions *other_copy(void)
{
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    return hf_instance_forward();
}

/* NULL beside a heap that has no spaces. */
static const struct hf_space_functions *spaces(void)
{
    const struct hf_instance_functions *other = other_copy();
    return HF_LIKELY(other == NULL) ? &hf_spaces_here : other->spaces;
}

static int alloc_host(void **out, size_t size, size_t alignment, const void *caller)
{
    if (out == NULL || (alignment & (alignment - 1)) != 0 || alignment > HF_GROUND_GRANULE)
        return -EINVAL;
    int saved_errno = errno;
    void *ptr = alignment != 0 ? hf_memalign(alignment, size) : hf_malloc(size);
    errno = saved_errno;
    if (ptr == NULL)
        return -ENOMEM;
    *out = hf_watch_given(ptr, size, caller);
    return 0;
}

/* The fast paths jump here, so that the return address is their caller's. */
int hf_space_alloc_slow(void **out, int kind_number, int device, size_t size, size_t alignment,
                        void *stream)
{
    enum hf_space_kind kind = (enum hf_space_kind)kind_number;
    if (kind == HF_SPACE_HOST)
        return alloc_host(out, size, alignment, __builtin_return_address(0));
    const struct hf_instance_functions *other = other_copy();
    if (HF_LIKELY(other == NULL))
        return hf_space_alloc_for(out, kind, device, size, alignment, stream,
                                  __builtin_return_address(0));
    return other->spaces != NULL ? other->spaces->alloc(out, kind, device, size, alignment, stream)
                                 : -ENOTSUP;
}

int hf_space_free_slow(void *ptr, void *stream)
{
    const struct hf_instance_functions *other = other_copy();
    if (HF_LIKELY(other == NULL))
        return hf_space_free_for(ptr, stream, __builtin_return_address(0));
    if (other->spaces != NULL)
        return other->spaces->free(ptr, stream);
    hf_free(ptr);
    return 0;
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
