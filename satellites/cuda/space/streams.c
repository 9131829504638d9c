/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of a pool's streams: which stream has which arena. Entries and slots are written
 * under the pool's lock; finding one takes no lock. Virtual arenas are never closed, and programs
 * make and destroy streams without end, so an entry without a live block gets another stream when
 * entries become many.
 *
 * Who uses an entry meanwhile finds out: first the entry becomes nobody's, then the blocks are
 * counted. Whoever takes a block from its arena looks at the entry afterwards, and gives the block
 * back if it is no longer his. So either the count has the block or he sees that it is nobody's.
 * Frees need no such care, because a block that is freed was live. What was freed may be in use by
 * work of the old stream, so the device is waited for before the entry gets a new one.
 *
 * Pinned memory belongs to no stream: its only arena is that of NULL. cudaStreamLegacy is the
 * default stream by another name. cudaStreamPerThread is another stream in each thread, so its
 * arena gets no block back before an event says so (spaces.c).
 */
#include "satellites/cuda/space/streams.h"

#include "alloc/base/fork_lock.h"
#include "satellites/cuda/driver/cuda.h"

#include <errno.h>

enum {
    EASY = 4 /* entries before any gets another stream; a power of two */
};

/* The entry, plus 1, of whichever pool an arena belongs to, by the arena's number. */
static _Atomic(uint16_t) entry_of_varena[HF_VARENAS_MOST];

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
    size_t slot = slot_of(stream);
    for (int tries = 0; tries < HF_STREAM_SLOTS; tries++, slot = (slot + 1) % HF_STREAM_SLOTS) {
        uint16_t index = atomic_load_explicit(&pool->slots[slot], memory_order_acquire);
        if (index == 0)
            return NULL;
        struct hf_stream *entry = &pool->streams[index - 1];
        if (HF_LIKELY(atomic_load_explicit(&entry->stream, memory_order_acquire) == stream))
            return entry;
    }
    return NULL;
}

struct hf_stream *hf_stream_find_surely(struct hf_pool *pool, void *stream)
{
    pthread_mutex_lock(&pool->lock);
    struct hf_stream *found = hf_stream_find(pool, stream);
    pthread_mutex_unlock(&pool->lock);
    return found;
}

bool hf_stream_is_still(const struct hf_pool *pool, const struct hf_stream *entry, void *stream,
                        bool unordered)
{
    if (unordered)
        atomic_thread_fence(memory_order_seq_cst);
    return HF_LIKELY(atomic_load(&entry->stream) == same_stream(pool, stream));
}

/* ---- entries; called with the pool's lock ---- */

static void insert(struct hf_pool *pool, uint32_t index)
{
    size_t slot = slot_of(atomic_load(&pool->streams[index].stream));
    while (atomic_load(&pool->slots[slot]) != 0)
        slot = (slot + 1) % HF_STREAM_SLOTS;
    atomic_store_explicit(&pool->slots[slot], (uint16_t)(index + 1), memory_order_release);
}

static struct hf_stream *bind(struct hf_pool *pool, uint32_t index, void *stream)
{
    struct hf_stream *entry = &pool->streams[index];
    stream = same_stream(pool, stream);
    if (pool->kind == HF_SPACE_DEVICE && hf_cuda_is_elsewhere(pool->device, stream))
        atomic_store(&pool->is_elsewhere, true);
    entry->bound = ++pool->bound;
    atomic_store(&entry->work, stream);
    atomic_store(&entry->stream, stream);
    insert(pool, index);
    return entry;
}

static bool has_small(struct hf_varena *varena)
{
    hf_varena_empty(varena);
    return hf_varena_small(varena) != 0;
}

/* Looks twice, because the first look may take long. */
static bool leave_if_idle(struct hf_pool *pool, struct hf_stream *entry)
{
    void *stream = atomic_load(&entry->stream);
    if (stream == HF_STREAM_NOBODY || atomic_load(&entry->large) != 0 || entry == pool->fast ||
        has_small(entry->varena))
        return false;
    atomic_store(&entry->stream, HF_STREAM_NOBODY);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&entry->large) == 0 && !has_small(entry->varena))
        return true;
    atomic_store(&entry->stream, stream);
    return false;
}

/* Makes all entries without a live block nobody's, if the device can be waited for. */
static void vacate(struct hf_pool *pool)
{
    bool left[HF_STREAMS_MAX] = {false};
    uint32_t count = atomic_load(&pool->streams_count), found = 0;
    for (uint32_t i = 0; i < count; i++) {
        left[i] = leave_if_idle(pool, &pool->streams[i]);
        found += left[i];
    }
    bool idle = found > 0 && hf_pool_wait(pool) == 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hf_stream *entry = &pool->streams[i];
        if (!left[i])
            continue;
        void *stream = atomic_load(&entry->work);
        if (idle) {
            pool->streams_left[pool->left_count++ % HF_STREAMS_LEFT] = stream;
            atomic_store(&entry->work, HF_STREAM_NOBODY);
        } else {
            atomic_store(&entry->stream, stream);
        }
    }
    if (!idle)
        return;
    pool->streams_vacant += found;
    for (size_t i = 0; i < HF_STREAM_SLOTS; i++)
        atomic_store_explicit(&pool->slots[i], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++)
        if (atomic_load(&pool->streams[i].stream) != HF_STREAM_NOBODY)
            insert(pool, i);
}

/* The one that had a stream last: that is where memory is. */
static struct hf_stream *bind_vacant(struct hf_pool *pool, void *stream)
{
    uint32_t count = atomic_load(&pool->streams_count), best = count;
    for (uint32_t i = 0; pool->streams_vacant > 0 && i < count; i++)
        if (atomic_load(&pool->streams[i].stream) == HF_STREAM_NOBODY &&
            (best == count || pool->streams[best].bound < pool->streams[i].bound))
            best = i;
    if (best == count)
        return NULL;
    pool->streams_vacant--;
    return bind(pool, best, stream);
}

/* ---- getting one ---- */

/* Entries are made nobody's as soon as there are a few, because each has memory that others cannot
 * use. If streams come back, which are not destroyed then, there may be more entries. */
static bool comes_back(const struct hf_pool *pool, void *stream)
{
    for (uint32_t i = 0; i < pool->left_count && i < HF_STREAMS_LEFT; i++)
        if (pool->streams_left[i] == stream)
            return true;
    return false;
}

static void make_capacity(struct hf_pool *pool, void *stream)
{
    uint32_t count = atomic_load(&pool->streams_count);
    if (pool->streams_easy == 0)
        pool->streams_easy = EASY;
    if (count < pool->streams_easy || hf_cuda_is_capturing(pool->device, stream))
        return;
    if (pool->streams_easy < HF_STREAMS_MAX && comes_back(pool, same_stream(pool, stream))) {
        pool->streams_easy *= 2;
        pool->left_count = 0;
    }
    if (count >= pool->streams_easy)
        vacate(pool);
}

static struct hf_stream *open_locked(struct hf_pool *pool, void *stream, int *error)
{
    struct hf_stream *found = hf_stream_find(pool, stream);
    if (found != NULL)
        return found;
    make_capacity(pool, stream);
    found = bind_vacant(pool, stream);
    if (found != NULL)
        return found;
    uint32_t index = atomic_load(&pool->streams_count);
    *error = -EAGAIN;
    if (index == HF_STREAMS_MAX)
        return NULL;
    struct hf_varena *varena = hf_pool_varena(pool);
    *error = -ENOMEM;
    if (varena == NULL) {
        vacate(pool);
        return bind_vacant(pool, stream);
    }
    pool->streams[index].varena = varena;
    atomic_store(&entry_of_varena[hf_varena_number(varena)], (uint16_t)(index + 1));
    atomic_store_explicit(&pool->streams_count, index + 1, memory_order_release);
    return bind(pool, index, stream);
}

/* The first stream gets the fast paths; its entry never becomes nobody's. */
static void offer_fast(struct hf_pool *pool, const struct hf_stream *stream)
{
    static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
    struct hf_fast_space *fast = hf_pool_fast(pool);
    size_t number = (size_t)(pool - hf_pools);
    if (atomic_load(&hf_spaces_forked))
        return;
    pthread_mutex_lock(&lock);
    if (fast->varena == NULL) {
        fast->base = pool->area.base;
        fast->entries = pool->area.entries;
        fast->size = pool->area.size;
        fast->stream = atomic_load(&stream->stream);
        pthread_mutex_lock(&pool->waiting);
        hf_pool_count_uses(pool, 0);
        pthread_mutex_unlock(&pool->waiting);
        __atomic_store_n(&fast->varena, stream->varena, __ATOMIC_RELEASE);
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
    if (pool->fast == NULL && stream != HF_STREAM_PER_THREAD)
        pool->fast = found;
    bool is_fast = found != NULL && found == pool->fast;
    pthread_mutex_unlock(&pool->lock);
    if (is_fast)
        offer_fast(pool, found);
    return found;
}

struct hf_stream *hf_stream_of_varena(struct hf_pool *pool, unsigned number)
{
    uint16_t index = atomic_load_explicit(&entry_of_varena[number], memory_order_acquire);
    return index != 0 ? &pool->streams[index - 1] : NULL;
}
