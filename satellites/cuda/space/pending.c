/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the lists of blocks that are freed, but that a device may still use, and of other streams
 * that use a live block. A pool's `waiting` guards both, and is not held while CUDA is called: a
 * block that is looked at belongs to the thread that took it off the list.
 */
#include "satellites/cuda/space/pending.h"

#include "satellites/cuda/cuda_core.h"
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/space/streams.h"

#include <errno.h>

enum { STREAMS_MAX = 8, POLLED = 64 };

struct hf_pending {
    struct hf_pending *next;
    struct hf_varena_block block;
    bool any; /* until all devices were idle */
    unsigned count;
    struct hf_cuda_event *events[STREAMS_MAX];
};

struct hf_use {
    struct hf_use *next;
    const void *at;
    void *stream;
};

void hf_block_return(struct hf_pool *pool, const struct hf_varena_block *block)
{
    struct hf_stream *stream = hf_stream_of_varena(pool, block->number);
    if (block->small) {
        hf_varena_give(stream->varena, block->at);
        return;
    }
    atomic_fetch_sub(&stream->large, block->size);
    hf_varena_give_pages(stream->varena, block->at, true);
}

/* ---- the list ---- */

static void append(struct hf_pool *pool, struct hf_pending *one)
{
    one->next = NULL;
    pthread_mutex_lock(&pool->waiting);
    *pool->pending_end = one;
    pool->pending_end = &one->next;
    pthread_mutex_unlock(&pool->waiting);
}

/* Takes the whole list; *end is where it ends. */
static struct hf_pending *detach(struct hf_pool *pool, struct hf_pending ***end)
{
    pthread_mutex_lock(&pool->waiting);
    struct hf_pending *first = pool->pending;
    *end = pool->pending_end;
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

static void forget(struct hf_pool *pool, struct hf_pending *one)
{
    struct hf_stream *stream = hf_stream_of_varena(pool, one->block.number);
    for (unsigned i = 0; i < one->count; i++)
        hf_cuda_drop(one->events[i]);
    atomic_fetch_sub(&pool->pending_count, 1);
    atomic_fetch_sub(&pool->any_count, one->any);
    atomic_fetch_sub(&pool->pending_bytes, one->block.size);
    atomic_fetch_sub(&stream->pending, one->block.size);
    hf_core()->free(one);
}

static void finish(struct hf_pool *pool, struct hf_pending *one)
{
    hf_block_return(pool, &one->block);
    forget(pool, one);
}

static void leak(struct hf_pool *pool, struct hf_pending *one)
{
    hf_pool_leak(pool, hf_stream_of_varena(pool, one->block.number), one->block.size);
    forget(pool, one);
}

void hf_pending_leak(struct hf_pool *pool)
{
    struct hf_pending **end, *one = detach(pool, &end);
    while (one != NULL) {
        struct hf_pending *next = one->next;
        leak(pool, one);
        one = next;
    }
}

/* Drops the events that are done. 0 if all are, -EAGAIN, or -ESHUTDOWN. */
static int look(struct hf_pool *pool, struct hf_pending *one)
{
    while (one->count > 0) {
        int error = hf_cuda_is_done(one->events[one->count - 1]);
        if (error == -EAGAIN || error == -ESHUTDOWN || error == -EBUSY)
            return error == -EBUSY ? -EAGAIN : error;
        hf_cuda_drop(one->events[--one->count]);
        if (error != 0 && !one->any) {
            /* As if the stream were unknown. */
            one->any = true;
            atomic_fetch_add(&pool->any_count, 1);
        }
    }
    return one->any ? -EAGAIN : 0;
}

/* What became of a block that was looked at. */
static bool settle(struct hf_pool *pool, struct hf_pending *one, int error,
                   struct hf_pending ***kept)
{
    if (error == 0) {
        finish(pool, one);
        return true;
    }
    if (error == -ESHUTDOWN) {
        hf_pools_lose();
        leak(pool, one);
        return false;
    }
    **kept = one;
    *kept = &one->next;
    return false;
}

bool hf_pending_poll(struct hf_pool *pool)
{
    if (atomic_load_explicit(&pool->pending_count, memory_order_relaxed) == 0 ||
        pthread_mutex_trylock(&pool->settling) != 0)
        return false;
    struct hf_pending **end, *one = detach(pool, &end), *first = NULL, **kept = &first;
    bool any = false;
    for (int looked = 0; one != NULL && looked < POLLED; looked++) {
        struct hf_pending *next = one->next;
        any |= settle(pool, one, look(pool, one), &kept);
        one = next;
    }
    *kept = NULL;
    if (one == NULL) {
        put_back(pool, first, kept);
    } else {
        /* Those that are not done go behind the others, which are looked at the next time. */
        *end = first;
        put_back(pool, one, first != NULL ? kept : end);
    }
    pthread_mutex_unlock(&pool->settling);
    return any;
}

static int wait_for_all(void)
{
    int error = hf_cuda_wait(-1);
    unsigned count = atomic_load_explicit(&hf_pools_open, memory_order_acquire);
    for (unsigned i = 1; i < count && error == 0; i++)
        if (atomic_load_explicit(&hf_pools[i].open, memory_order_acquire))
            error = hf_pool_wait(&hf_pools[i]);
    return error;
}

static bool wait_for_oldest(struct hf_pool *pool)
{
    struct hf_pending **end, *one = detach(pool, &end), *first = NULL, **kept = &first;
    while (one != NULL && (one->any || one->count == 0)) {
        *kept = one;
        kept = &one->next;
        one = one->next;
    }
    bool any = false;
    if (one != NULL) {
        struct hf_pending *next = one->next;
        int error = 0;
        for (unsigned i = 0; i < one->count && error == 0; i++)
            error = hf_cuda_await(one->events[i]);
        any = settle(pool, one, error == 0 ? look(pool, one) : error, &kept);
        one = next;
    }
    *kept = one;
    put_back(pool, first, one != NULL ? end : kept);
    return any;
}

static bool wait_for_list(struct hf_pool *pool)
{
    struct hf_pending **end, *one = detach(pool, &end), *first = NULL, **kept = &first;
    int error = one != NULL ? wait_for_all() : 0;
    bool any = false;
    while (one != NULL) {
        struct hf_pending *next = one->next;
        any |= settle(pool, one, error, &kept);
        one = next;
    }
    *kept = NULL;
    put_back(pool, first, kept);
    return any;
}

bool hf_pending_wait(struct hf_pool *pool, enum hf_pending_what what)
{
    if (atomic_load(&pool->pending_count) == 0 ||
        (what == HF_WAIT_UNKNOWN && atomic_load(&pool->any_count) == 0))
        return false;
    /* What another thread has waited for meanwhile may be free, too. */
    bool any = pthread_mutex_trylock(&pool->settling) != 0;
    if (any)
        pthread_mutex_lock(&pool->settling);
    any |= what == HF_WAIT_OLDEST ? wait_for_oldest(pool) : wait_for_list(pool);
    pthread_mutex_unlock(&pool->settling);
    return any;
}

/* ---- freeing ---- */

/* Takes the next other stream that uses a block off the list. */
static bool take_use(struct hf_pool *pool, const void *at, void **stream)
{
    struct hf_use *before = NULL, *use;
    if (!hf_pool_may_use(pool, at))
        return false;
    pthread_mutex_lock(&pool->waiting);
    for (use = *hf_pool_uses(pool, at); use != NULL && use->at != at; use = use->next)
        before = use;
    if (use != NULL) {
        if (before != NULL)
            before->next = use->next;
        else
            *hf_pool_uses(pool, at) = use->next;
        hf_pool_count_uses(pool, (uint32_t)-1);
        *stream = use->stream;
    }
    pthread_mutex_unlock(&pool->waiting);
    hf_core()->free(use);
    return use != NULL;
}

/* Adds what a stream's work needs. Whatever CUDA cannot mark (a stream that is captured, or was
 * destroyed) waits until everything was idle. */
static int mark(struct hf_pool *pool, struct hf_pending *one, void *stream)
{
    if (stream == HF_STREAM_DONE)
        return 0;
    if (stream == HF_STREAM_ANY || one->count == STREAMS_MAX) {
        one->any = true;
        return 0;
    }
    int device = pool->device >= 0 ? pool->device : hf_cuda_current();
    int error = hf_cuda_mark(device, stream, &one->events[one->count]);
    if (error == 0)
        one->count++;
    else if (error != -ESHUTDOWN)
        one->any = true;
    return error == -ESHUTDOWN ? error : 0;
}

int hf_pending_add(struct hf_pool *pool, const struct hf_varena_block *block, void *stream)
{
    struct hf_pending *one = hf_core()->malloc(sizeof *one);
    struct hf_stream *owner = hf_stream_of_varena(pool, block->number);
    if (one == NULL) {
        hf_pool_leak(pool, owner, block->size);
        return -ECANCELED;
    }
    *one = (struct hf_pending){.block = *block};
    int error = mark(pool, one, stream);
    while (error == 0 && take_use(pool, block->at, &stream))
        error = mark(pool, one, stream);
    atomic_fetch_add(&pool->pending_count, 1);
    atomic_fetch_add(&pool->any_count, one->any);
    atomic_fetch_add(&pool->pending_bytes, block->size);
    atomic_fetch_add(&owner->pending, block->size);
    if (error != 0) {
        hf_pools_lose();
        leak(pool, one);
        return -ECANCELED;
    }
    if (one->count == 0 && !one->any) {
        finish(pool, one);
        return 0;
    }
    append(pool, one);
    return 0;
}

int hf_pending_use(struct hf_pool *pool, const void *at, void *stream)
{
    struct hf_use *use = hf_core()->malloc(sizeof *use);
    if (use == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&pool->waiting);
    _Atomic(struct hf_use *) *list = hf_pool_uses(pool, at);
    const struct hf_use *same = *list;
    while (same != NULL && (same->at != at || same->stream != stream))
        same = same->next;
    if (same != NULL) {
        pthread_mutex_unlock(&pool->waiting);
        hf_core()->free(use);
        return 0;
    }
    *use = (struct hf_use){.next = *list, .at = at, .stream = stream};
    *list = use;
    hf_pool_count_uses(pool, 1);
    pthread_mutex_unlock(&pool->waiting);
    return 0;
}
