/*
 * Owns the table of a pool's streams. A stream's entry and slot are written under the pool's lock,
 * published by the slot, and stay for ever; finding one takes no lock.
 *
 * Pinned memory belongs to no stream: its only ground is that of NULL. cudaStreamLegacy is the
 * default stream by another name. cudaStreamPerThread is another stream in each thread, so its
 * ground gets no block back before an event says so (spaces.c).
 */
#include "alloc/space/streams.h"

#include <errno.h>

static void *same_stream(const struct hf_pool *pool, void *stream)
{
    return pool->kind == HF_SPACE_PINNED || stream == HF_STREAM_LEGACY ? NULL : stream;
}

static size_t slot_of(const void *stream)
{
    uint64_t hash = (uintptr_t)stream * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 55) % HF_STREAM_SLOTS;
}

struct hf_stream *hf_stream_find(struct hf_pool *pool, void *stream)
{
    stream = same_stream(pool, stream);
    for (size_t slot = slot_of(stream);; slot = (slot + 1) % HF_STREAM_SLOTS) {
        uint16_t index = atomic_load_explicit(&pool->slots[slot], memory_order_acquire);
        if (index == 0)
            return NULL;
        if (HF_LIKELY(pool->streams[index - 1].stream == stream))
            return &pool->streams[index - 1];
    }
}

static struct hf_stream *open_locked(struct hf_pool *pool, void *stream, int *error)
{
    struct hf_stream *found = hf_stream_find(pool, stream);
    if (found != NULL)
        return found;
    uint32_t index = atomic_load(&pool->streams_count);
    *error = -EAGAIN;
    if (index == HF_STREAMS_MAX)
        return NULL;
    struct hf_ground *ground = hf_pool_ground(pool);
    *error = -ENOMEM;
    if (ground == NULL)
        return NULL;
    found = &pool->streams[index];
    found->stream = same_stream(pool, stream);
    found->ground = ground;
    atomic_store_explicit(&pool->streams_count, index + 1, memory_order_release);
    size_t slot = slot_of(found->stream);
    while (atomic_load(&pool->slots[slot]) != 0)
        slot = (slot + 1) % HF_STREAM_SLOTS;
    atomic_store_explicit(&pool->slots[slot], (uint16_t)(index + 1), memory_order_release);
    return found;
}

/* The first stream gets the fast paths. */
static void offer_fast(struct hf_pool *pool, const struct hf_stream *stream)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct hf_fast_space *fast = hf_pool_fast(pool);
    size_t number = (size_t)(pool - hf_pools);
    if (stream->stream == HF_STREAM_PER_THREAD || atomic_load(&hf_spaces_forked))
        return;
    pthread_mutex_lock(&lock);
    if (fast->ground == NULL) {
        fast->base = pool->base;
        fast->size = pool->size;
        fast->delta = pool->base - pool->shadow;
        fast->stream = stream->stream;
        fast->arena = hf_ground_arena(stream->ground);
        pthread_mutex_lock(&pool->waiting);
        hf_pool_count_uses(pool, 0);
        pthread_mutex_unlock(&pool->waiting);
        __atomic_store_n(&fast->ground, stream->ground, __ATOMIC_RELEASE);
        if (hf_fast_spaces.count <= number)
            __atomic_store_n(&hf_fast_spaces.count, number + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    if (atomic_load(&pool->lost))
        hf_fast_close(fast);
}

struct hf_stream *hf_stream_open(struct hf_pool *pool, void *stream, int *error)
{
    pthread_mutex_lock(&pool->lock);
    struct hf_stream *found = open_locked(pool, stream, error);
    pthread_mutex_unlock(&pool->lock);
    if (found != NULL)
        offer_fast(pool, found);
    return found;
}

struct hf_stream *hf_stream_of_arena(struct hf_pool *pool, unsigned arena)
{
    uint32_t count = atomic_load_explicit(&pool->streams_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (hf_ground_arena(pool->streams[i].ground) == arena)
            return &pool->streams[i];
    return NULL;
}
