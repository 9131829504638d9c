/*
 * The exported functions of homefree/space.h: the fast paths of small blocks, and for everything
 * else spaces.c of the copy of libhomefree that is the heap. Owns nothing. Any stage: the first
 * call starts the heap.
 *
 * A fast path takes no lock and asks nobody. It serves what was used before: a pool is ready, in
 * the heap's copy alone, when all that can be said against it is false.
 */
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "alloc/space/spaces.h"
#include "alloc/space/streams.h"

#include <errno.h>

/* NULL beside a heap that has no spaces. */
static const struct hf_space_functions *spaces(void)
{
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    const struct hf_instance_functions *other = hf_instance_forward();
    return HF_LIKELY(other == NULL) ? &hf_spaces_here : other->spaces;
}

/* A small block of a pool that is ready, from a cache of this thread, or NULL. */
static inline void *take_small(enum hf_space_kind kind, int device, size_t size, void *stream)
{
    size_t number = kind == HF_SPACE_PINNED ? 0 : 1 + (size_t)(unsigned)device;
    if (HF_UNLIKELY(number > HF_DEVICES_MAX ||
                    (kind != HF_SPACE_PINNED && kind != HF_SPACE_DEVICE)))
        return NULL;
    struct hf_pool *pool = &hf_pools[number];
    if (HF_UNLIKELY(!hf_pool_is_ready(pool)))
        return NULL;
    const struct hf_stream *found =
        kind == HF_SPACE_PINNED ? &pool->streams[0] : hf_stream_find(pool, stream);
    if (HF_UNLIKELY(found == NULL))
        return NULL;
    void *shadow = hf_ground_take_cached(found->ground,
                                         (size + HF_GROUND_ALIGNMENT - 1) & -HF_GROUND_ALIGNMENT);
    return HF_LIKELY(shadow != NULL) ? hf_pool_real(pool, shadow) : NULL;
}

/* Whether a small block could be given back to a cache of this thread: on its own stream, and while
 * no other stream uses any block. */
static inline bool give_small(void *ptr, void *stream)
{
    struct hf_pool *pool = hf_pool_of(ptr);
    if (HF_UNLIKELY(pool == NULL || !hf_pool_is_ready(pool) ||
                    atomic_load_explicit(&pool->uses_count, memory_order_relaxed) != 0))
        return false;
    const struct hf_stream *found;
    if (pool->kind == HF_SPACE_PINNED)
        found = stream == HF_STREAM_DONE ? &pool->streams[0] : NULL;
    else
        found = stream == HF_STREAM_PER_THREAD ? NULL : hf_stream_find(pool, stream);
    return found != NULL && hf_ground_give_fast(found->ground, hf_pool_shadow(pool, ptr));
}

static int alloc_host(void **out, size_t size, size_t alignment)
{
    if (out == NULL || (alignment & (alignment - 1)) != 0 || alignment > HF_GROUND_GRANULE)
        return -EINVAL;
    int saved_errno = errno;
    void *ptr = alignment != 0 ? hf_memalign(alignment, size) : hf_malloc(size);
    errno = saved_errno;
    if (ptr == NULL)
        return -ENOMEM;
    *out = ptr;
    return 0;
}

int hf_space_alloc(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                   void *stream)
{
    if (HF_LIKELY(size - 1 < HF_GROUND_CACHED && alignment == 0 && out != NULL)) {
        void *ptr = take_small(kind, device, size, stream);
        if (HF_LIKELY(ptr != NULL)) {
            *out = ptr;
            return 0;
        }
    }
    if (kind == HF_SPACE_HOST)
        return alloc_host(out, size, alignment);
    const struct hf_space_functions *to = spaces();
    return to != NULL ? to->alloc(out, kind, device, size, alignment, stream) : -ENOTSUP;
}

int hf_space_free(void *ptr, void *stream)
{
    if (HF_LIKELY(give_small(ptr, stream)))
        return 0;
    const struct hf_space_functions *to = spaces();
    if (to != NULL)
        return to->free(ptr, stream);
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
