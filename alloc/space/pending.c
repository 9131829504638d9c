/*
 * Owns the lists of blocks that are freed, but that a device may still use, and of other streams
 * that use a live block. A pool's `waiting` guards both, and is not held while CUDA is called: a
 * block that is looked at belongs to the thread that took it off the list.
 */
#include "alloc/cuda/cuda.h"
#include "alloc/space/pool.h"

#include <errno.h>

enum { STREAMS_MAX = 8, POLLED = 16 };

struct hf_pending {
    struct hf_pending *next;
    void *shadow;
    size_t size;
    unsigned arena;
    bool small;
    bool any; /* until all devices were idle */
    unsigned count;
    struct hf_cuda_event *events[STREAMS_MAX];
};

struct hf_use {
    struct hf_use *next;
    const void *shadow;
    void *stream;
};

void hf_block_return(struct hf_pool *pool, void *shadow, size_t size, bool small, unsigned arena)
{
    struct hf_stream *stream = hf_stream_of_arena(pool, arena);
    if (small) {
        (void)hf_ground_give(stream->ground, shadow);
        return;
    }
    atomic_fetch_sub(&stream->large, size);
    hf_ground_give_pages(stream->ground, shadow, true);
}

/* ---- the list ---- */

static void append(struct hf_pool *pool, struct hf_pending *block)
{
    block->next = NULL;
    pthread_mutex_lock(&pool->waiting);
    *pool->pending_end = block;
    pool->pending_end = &block->next;
    pthread_mutex_unlock(&pool->waiting);
    atomic_fetch_add(&pool->pending_count, 1);
    atomic_fetch_add(&pool->any_count, block->any);
}

/* Takes the whole list. */
static struct hf_pending *detach(struct hf_pool *pool)
{
    pthread_mutex_lock(&pool->waiting);
    struct hf_pending *first = pool->pending;
    pool->pending = NULL;
    pool->pending_end = &pool->pending;
    pthread_mutex_unlock(&pool->waiting);
    return first;
}

/* Puts blocks back in front of what came meanwhile. */
static void put_back(struct hf_pool *pool, struct hf_pending *first, struct hf_pending **end)
{
    if (first == NULL)
        return;
    pthread_mutex_lock(&pool->waiting);
    *end = pool->pending;
    if (pool->pending == NULL)
        pool->pending_end = end;
    pool->pending = first;
    pthread_mutex_unlock(&pool->waiting);
}

static void forget(struct hf_pool *pool, struct hf_pending *block)
{
    struct hf_stream *stream = hf_stream_of_arena(pool, block->arena);
    for (unsigned i = 0; i < block->count; i++)
        hf_cuda_drop(block->events[i]);
    atomic_fetch_sub(&pool->pending_count, 1);
    atomic_fetch_sub(&pool->any_count, block->any);
    atomic_fetch_sub(&pool->pending_bytes, block->size);
    atomic_fetch_sub(&stream->pending, block->size);
    hf_free(block);
}

static void finish(struct hf_pool *pool, struct hf_pending *block)
{
    hf_block_return(pool, block->shadow, block->size, block->small, block->arena);
    forget(pool, block);
}

static void leak(struct hf_pool *pool, struct hf_pending *block)
{
    hf_pool_leak(pool, hf_stream_of_arena(pool, block->arena), block->size);
    forget(pool, block);
}

/* Drops the events that are done. 0 if all are, -EAGAIN, or -ESHUTDOWN. */
static int look(struct hf_pending *block)
{
    while (block->count > 0) {
        int error = hf_cuda_is_done(block->events[block->count - 1]);
        if (error == -EAGAIN || error == -ESHUTDOWN || error == -EBUSY)
            return error == -EBUSY ? -EAGAIN : error;
        hf_cuda_drop(block->events[--block->count]);
        if (error != 0)
            return -EAGAIN; /* an event that fails: as if its stream were unknown */
    }
    return block->any ? -EAGAIN : 0;
}

bool hf_pending_poll(struct hf_pool *pool)
{
    if (atomic_load_explicit(&pool->pending_count, memory_order_relaxed) == 0)
        return false;
    struct hf_pending *block = detach(pool), *kept = NULL, **end = &kept;
    bool any = false;
    for (int looked = 0; block != NULL;) {
        struct hf_pending *next = block->next;
        bool had_events = block->count > 0;
        int error = looked < POLLED && (had_events || !block->any) ? look(block) : -EAGAIN;
        looked += had_events;
        if (error == 0) {
            finish(pool, block);
            any = true;
        } else if (error == -ESHUTDOWN) {
            atomic_store(&pool->lost, true);
            leak(pool, block);
        } else {
            *end = block;
            end = &block->next;
        }
        block = next;
    }
    put_back(pool, kept, end);
    return any;
}

bool hf_pending_wait(struct hf_pool *pool, bool any_only)
{
    if (atomic_load(&pool->pending_count) == 0 || (any_only && atomic_load(&pool->any_count) == 0))
        return false;
    struct hf_pending *block = detach(pool), *kept = NULL, **end = &kept;
    int error = block != NULL ? hf_cuda_wait(-1) : 0;
    bool any = false;
    while (block != NULL) {
        struct hf_pending *next = block->next;
        if (error == 0) {
            finish(pool, block);
            any = true;
        } else if (error == -ESHUTDOWN) {
            atomic_store(&pool->lost, true);
            leak(pool, block);
        } else {
            *end = block;
            end = &block->next;
        }
        block = next;
    }
    put_back(pool, kept, end);
    return any;
}

/* ---- freeing ---- */

/* Takes the next other stream that uses a block off the list. */
static bool take_use(struct hf_pool *pool, const void *shadow, void **stream)
{
    if (atomic_load_explicit(&pool->uses_count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&pool->waiting);
    struct hf_use **at = &pool->uses;
    while (*at != NULL && (*at)->shadow != shadow)
        at = &(*at)->next;
    struct hf_use *use = *at;
    if (use != NULL) {
        *at = use->next;
        atomic_fetch_sub(&pool->uses_count, 1);
        *stream = use->stream;
    }
    pthread_mutex_unlock(&pool->waiting);
    hf_free(use);
    return use != NULL;
}

/* Adds what a stream's work needs. Whatever CUDA cannot mark (a stream that is captured, or was
 * destroyed) waits until everything was idle. */
static int mark(struct hf_pool *pool, struct hf_pending *block, void *stream)
{
    if (stream == HF_STREAM_DONE)
        return 0;
    if (stream == HF_STREAM_ANY || block->count == STREAMS_MAX) {
        block->any = true;
        return 0;
    }
    int device = pool->device >= 0 ? pool->device : hf_cuda_current();
    int error = hf_cuda_mark(device, stream, &block->events[block->count]);
    if (error == 0)
        block->count++;
    else if (error != -ESHUTDOWN)
        block->any = true;
    return error == -ESHUTDOWN ? error : 0;
}

int hf_pending_add(struct hf_pool *pool, const struct hf_ground_block *from, void *stream)
{
    struct hf_pending *block = hf_malloc(sizeof *block);
    struct hf_stream *owner = hf_stream_of_arena(pool, from->arena);
    if (block == NULL) {
        hf_pool_leak(pool, owner, from->size);
        return -ECANCELED;
    }
    *block = (struct hf_pending){
        .shadow = from->at, .size = from->size, .arena = from->arena, .small = from->small};
    atomic_fetch_add(&pool->pending_bytes, block->size);
    atomic_fetch_add(&owner->pending, block->size);
    int error = mark(pool, block, stream);
    while (error == 0 && take_use(pool, from->at, &stream))
        error = mark(pool, block, stream);
    if (error != 0) {
        atomic_store(&pool->lost, true);
        atomic_fetch_add(&pool->pending_count, 1);
        atomic_fetch_add(&pool->any_count, block->any);
        leak(pool, block);
        return -ECANCELED;
    }
    if (block->count == 0 && !block->any) {
        atomic_fetch_add(&pool->pending_count, 1);
        finish(pool, block);
        return 0;
    }
    append(pool, block);
    return 0;
}

int hf_pending_use(struct hf_pool *pool, const void *shadow, void *stream)
{
    struct hf_use *use = hf_malloc(sizeof *use);
    if (use == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&pool->waiting);
    *use = (struct hf_use){.next = pool->uses, .shadow = shadow, .stream = stream};
    pool->uses = use;
    atomic_fetch_add(&pool->uses_count, 1);
    pthread_mutex_unlock(&pool->waiting);
    return 0;
}
