/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of homefree/space.h. Owns nothing; takes no lock of its own.
 *
 * A block comes from its stream's arena. If the part of the pool that it lies in is not backed, or
 * the arena has no room, what is free already is looked for first, in the order in which it costs
 * time: blocks whose streams are done, what waits for a request of its own size, blocks of unknown
 * streams (which means waiting for the devices), more memory of the driver, and at last what other
 * streams leave unused.
 */
#include "satellites/cuda/space/spaces.h"

#include "alloc/base/sized.h"
#include "satellites/cuda/cuda_core.h"
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/space/pending.h"
#include "satellites/cuda/space/streams.h"

#include <errno.h>
#include <string.h>

/* Blocks whose alignment or size is beyond this are whole pages. */
#define PAGE ((size_t)1 << HF_LG_PAGE)

enum {
    FRAGMENTED_PART = 24, /* a 24th of what is reserved may be unused */
    SPARE_PART = 16,      /* what moves beside what a block needs */
    IN_VAIN_PART = 64,    /* how much is reserved before it is tried again */
    RETRIES = 16,
    COUNTED_UNLOCKED = 8 << 10, /* hf_varena_small() may lag behind for larger blocks */
    PENDING_PART = 2            /* half of it may wait for a device */
};

static bool is_small(size_t size, size_t alignment)
{
    return size <= HF_VARENA_CACHED && alignment <= HF_VARENA_ALIGNMENT;
}

/* ---- allocating ---- */

struct request {
    struct hf_pool *pool;
    void *for_stream;
    struct hf_stream *stream; /* its entry */
    size_t size;              /* rounded */
    size_t alignment;
    bool small;
    bool captured; /* the stream is: nobody may wait for the device */
};

static void *take(const struct request *request)
{
    if (request->small)
        return hf_varena_take(request->stream->varena, request->size);
    return hf_varena_take_pages(request->stream->varena, request->size, request->alignment);
}

static void give_up(const struct request *request, void *block)
{
    if (request->small)
        hf_varena_give(request->stream->varena, block);
    else
        hf_varena_give_pages(request->stream->varena, block, false);
}

/* A thread's cache holds only blocks that are backed, so that nobody looks there: after it was
 * filled, all of it is backed, or emptied again. */
struct filled {
    struct hf_pool *pool;
    bool back;
    int error;
};

static bool look_at_filled(void *context, void *at, size_t size)
{
    struct filled *filled = context;
    if (!hf_pool_is_backed(filled->pool, at, size))
        filled->error = filled->back ? hf_pool_back(filled->pool, at, size) : -ENOMEM;
    return filled->error == 0;
}

static int back_filled(const struct request *request, bool back)
{
    struct filled filled = {.pool = request->pool, .back = back};
    if (request->small &&
        !hf_varena_each_cached(request->stream->varena, request->size, look_at_filled, &filled))
        hf_varena_empty(request->stream->varena);
    return filled.error;
}

/* Takes a block that is backed, or with `back` is backed now. */
static int take_backed(const struct request *request, bool back, void **out)
{
    void *block = take(request);
    if (block == NULL)
        return -ENOMEM;
    int error = 0;
    if (!hf_pool_is_backed(request->pool, block, request->size))
        error = back ? hf_pool_back(request->pool, block, request->size) : -ENOMEM;
    int others = back_filled(request, back && error == 0);
    if (error != 0 || (others != 0 && !back)) {
        give_up(request, block);
        if (request->small)
            hf_varena_empty(request->stream->varena);
        return error != 0 ? error : others;
    }
    *out = block;
    return 0;
}

/* Bytes that are backed, in which there is no block. */
static uint64_t unused(struct hf_pool *pool)
{
    uint64_t used = 0;
    uint32_t streams = atomic_load_explicit(&pool->streams_count, memory_order_acquire);
    for (uint32_t i = 0; i < streams; i++)
        used += atomic_load(&pool->streams[i].large) + hf_varena_small(pool->streams[i].varena);
    uint64_t reserved = atomic_load(&pool->reserved);
    return reserved > used ? reserved - used : 0;
}

/*
 * More is not asked from the driver for a block while a good part of what there is is unused, but
 * in pieces that are too short: units of that are given back, and the block gets others. It costs a
 * wait for the device. So it is not done for each block, but for the first one that makes the pool
 * larger than it was then; as much again is given back, which the next blocks get without a wait.
 * Where it does not help, the pool grows a little before it is done again.
 */
static void gather(const struct request *request, size_t lacks)
{
    struct hf_pool *pool = request->pool;
    uint64_t reserved = atomic_load(&pool->reserved);
    if (reserved + lacks <= atomic_load(&pool->gathered) ||
        unused(pool) < reserved / FRAGMENTED_PART)
        return;
    uint64_t most = request->size + HF_VARENA_GRANULE + reserved / SPARE_PART;
    bool helps = hf_pool_trim(pool, reserved > most ? reserved - most : 0) >= lacks;
    atomic_store(&pool->gathered, helps ? reserved : reserved + reserved / IN_VAIN_PART);
}

static int grow(const struct request *request, void **out)
{
    if (request->small)
        return take_backed(request, true, out);
    struct hf_pool *pool = request->pool;
    void *block = take(request);
    if (block == NULL) {
        /* With no free range that is long enough, the arena needs more addresses. */
        size_t capacity = request->size + (request->alignment > PAGE ? request->alignment : 0);
        if (!hf_pool_extend(pool, request->stream->varena, capacity))
            return -ENOMEM;
        block = take(request);
        if (block == NULL)
            return -ENOMEM;
    }
    size_t lacks = hf_pool_lacks(pool, block, request->size, SIZE_MAX);
    if (lacks != 0 && !request->captured)
        gather(request, lacks);
    int error = hf_pool_back(pool, block, request->size);
    if (error != 0)
        give_up(request, block);
    else
        *out = block;
    return error;
}

/* To wait for the device would invalidate the capture. */
static int take_for_capture(const struct request *request, void **out)
{
    struct request here = *request;
    here.captured = true;
    (void)hf_pending_poll(request->pool);
    hf_varena_empty(request->stream->varena);
    int error = grow(&here, out);
    return error == -ENOMEM ? -EBUSY : error;
}

static __attribute__((noinline)) int take_slowly(const struct request *request, void **out)
{
    struct hf_pool *pool = request->pool;
    if (pool->kind == HF_SPACE_DEVICE && hf_cuda_is_capturing(pool->device, request->for_stream))
        return take_for_capture(request, out);
    if (hf_pending_poll(pool) && take_backed(request, false, out) == 0)
        return 0;
    hf_varena_empty(request->stream->varena);
    if (take_backed(request, false, out) == 0)
        return 0;
    if (hf_pending_wait(pool, HF_WAIT_UNKNOWN) && take_backed(request, false, out) == 0)
        return 0;
    /* Rather than grow without end ahead of a device that is slower. */
    while (atomic_load(&pool->pending_bytes) > atomic_load(&pool->reserved) / PENDING_PART &&
           hf_pending_wait(pool, HF_WAIT_OLDEST))
        if (take_backed(request, false, out) == 0)
            return 0;
    int error = grow(request, out);
    if (error != -ENOMEM)
        return error;
    /* Another thread may take what is found. */
    for (int tries = 0; tries < RETRIES; tries++) {
        bool found = hf_pool_trim(pool, 0) != 0;
        error = grow(request, out);
        if (error != -ENOMEM)
            return error;
        if (!hf_pending_wait(pool, HF_WAIT_ALL) && !found)
            break;
    }
    /* What was backed for a block that got too little. */
    (void)hf_pool_trim(pool, 0);
    return -ENOMEM;
}

/* -ESTALE: the stream's entry became another's meanwhile. */
static int take_for(struct request *request, void **out)
{
    struct hf_pool *pool = request->pool;
    void *block, *stream = request->for_stream;
    int error = 0;
    request->stream = hf_stream_find(pool, stream);
    if (HF_UNLIKELY(request->stream == NULL))
        request->stream = hf_stream_open(pool, stream, &error);
    if (HF_UNLIKELY(request->stream == NULL))
        return error;
    error = take_backed(request, false, &block);
    if (error != 0)
        error = take_slowly(request, &block);
    if (error != 0)
        return error;
    if (!request->small)
        atomic_fetch_add(&request->stream->large, request->size);
    if (!hf_stream_is_still(pool, request->stream, stream, request->size > COUNTED_UNLOCKED)) {
        give_up(request, block);
        if (!request->small)
            atomic_fetch_sub(&request->stream->large, request->size);
        return -ESTALE;
    }
    *out = block;
    return 0;
}

int hf_spaces_alloc_slowly(void **out, enum hf_space_kind kind, int device, size_t size,
                           size_t alignment, void *stream)
{
    if (out == NULL || (alignment & (alignment - 1)) != 0 || alignment > HF_VARENA_GRANULE)
        return -EINVAL;
    struct hf_pool *pool = hf_pool_at(kind, device);
    if (HF_UNLIKELY(pool == NULL || (kind == HF_SPACE_DEVICE &&
                                     (stream == HF_STREAM_DONE || stream == HF_STREAM_ANY ||
                                      stream == HF_STREAM_NOBODY))))
        return -EINVAL;
    int error = hf_pool_open(pool);
    if (HF_UNLIKELY(error != 0))
        return error;
    if (HF_UNLIKELY(size > pool->area.size))
        return -ENOMEM;
    struct request request = {.pool = pool, .for_stream = stream, .alignment = alignment};
    request.small = HF_LIKELY(is_small(size, alignment));
    size_t unit = request.small ? HF_VARENA_ALIGNMENT : PAGE;
    request.size = (size + unit - 1) & -unit;
    if (HF_UNLIKELY(request.size == 0))
        request.size = unit;
    /* A block that only its alignment makes large. */
    if (HF_UNLIKELY(!request.small && request.size <= HF_VARENA_CACHED))
        request.size = HF_VARENA_CACHED + PAGE;
    do {
        error = take_for(&request, out);
    } while (HF_UNLIKELY(error == -ESTALE));
    return error;
}

/* ---- freeing ---- */

int hf_spaces_free_slowly(void *ptr, void *stream)
{
    struct hf_pool *pool = hf_pool_of(ptr);
    if (HF_UNLIKELY(pool == NULL)) {
        hf_core()->free(ptr);
        return 0;
    }
    if (HF_UNLIKELY(atomic_load_explicit(&hf_spaces_forked, memory_order_relaxed) ||
                    atomic_load_explicit(&pool->lost, memory_order_relaxed))) {
        struct hf_varena_block lost = hf_varena_find(&pool->area, ptr);
        if (lost.at != ptr || !hf_varena_claim(&pool->area, ptr))
            return -EINVAL;
        hf_pool_leak(pool, hf_stream_of_varena(pool, lost.number), lost.size);
        return -ECANCELED;
    }
    /* On the block's own stream, and when nobody uses it, a block is free at once. */
    bool none_else = !hf_pool_may_use(pool, ptr);
    struct hf_varena_block block = hf_varena_find(&pool->area, ptr);
    if (HF_UNLIKELY(block.at != ptr) || HF_UNLIKELY(!hf_varena_claim(&pool->area, ptr)))
        return -EINVAL;
    bool at_once = stream == HF_STREAM_DONE;
    if (!at_once && pool->kind == HF_SPACE_DEVICE && stream != HF_STREAM_PER_THREAD) {
        const struct hf_stream *own = hf_stream_find(pool, stream);
        at_once = own != NULL && hf_varena_number(own->varena) == block.number;
    }
    if (HF_UNLIKELY(!none_else || !at_once))
        return hf_pending_add(pool, &block, at_once ? HF_STREAM_DONE : stream);
    hf_block_return(pool, &block);
    return 0;
}

/* ---- asking ---- */

int hf_spaces_of(const void *ptr, struct hf_space *out)
{
    struct hf_space space = {.kind = HF_SPACE_HOST, .device = -1};
    if (out == NULL || out->size < offsetof(struct hf_space, device))
        return -EINVAL;
    struct hf_pool *pool = hf_pool_of(ptr);
    if (pool == NULL)
        return -ENOENT;
    const struct hf_varena_block block = hf_varena_find(&pool->area, ptr);
    space.kind = pool->kind;
    space.device = pool->device;
    if (block.at != NULL) {
        struct hf_stream *stream = hf_stream_of_varena(pool, block.number);
        space.block = block.at;
        space.block_size = block.size;
        space.stream = stream != NULL ? atomic_load(&stream->stream) : NULL;
    }
    hf_sized_copy(out, &space, sizeof space);
    return 0;
}

int hf_spaces_use(void *ptr, void *stream)
{
    struct hf_pool *pool = hf_pool_of(ptr);
    if (pool == NULL || stream == HF_STREAM_DONE)
        return -EINVAL;
    if (atomic_load(&hf_spaces_forked))
        return 0;
    if (hf_varena_find(&pool->area, ptr).at != ptr)
        return -EINVAL;
    return hf_pending_use(pool, ptr, stream);
}

static uint64_t allocated(struct hf_stream *stream)
{
    uint64_t freed = atomic_load(&stream->pending) + atomic_load(&stream->leaked);
    uint64_t bytes = atomic_load(&stream->large) + hf_varena_small(stream->varena);
    return bytes > freed ? bytes - freed : 0;
}

static int stats_of_stream(struct hf_pool *pool, void *stream, struct hf_space_stats *stats)
{
    struct hf_stream *found = hf_stream_find_surely(pool, stream);
    if (found == NULL)
        return -ENOENT;
    stats->allocated = allocated(found);
    stats->pending = atomic_load(&found->pending);
    stats->leaked = atomic_load(&found->leaked);
    return 0;
}

static void stats_of_pool(struct hf_pool *pool, struct hf_space_stats *stats)
{
    stats->total = pool->total;
    stats->limit = atomic_load(&pool->limit);
    stats->reserved = atomic_load(&pool->reserved);
    stats->reserved_peak = atomic_load(&pool->reserved_peak);
    stats->pending = atomic_load(&pool->pending_bytes);
    stats->leaked = atomic_load(&pool->leaked);
    stats->leaked_blocks = atomic_load(&pool->leaked_blocks);
    stats->grown = atomic_load(&pool->grown);
    uint32_t streams = atomic_load_explicit(&pool->streams_count, memory_order_acquire);
    for (uint32_t i = 0; i < streams; i++) {
        stats->allocated += allocated(&pool->streams[i]);
        stats->streams += atomic_load(&pool->streams[i].stream) != HF_STREAM_NOBODY;
    }
    if (stats->allocated > atomic_load(&pool->allocated_peak))
        atomic_store(&pool->allocated_peak, stats->allocated);
    stats->allocated_peak = atomic_load(&pool->allocated_peak);
}

int hf_spaces_stats(enum hf_space_kind kind, int device, void *stream, struct hf_space_stats *out)
{
    struct hf_space_stats stats = {.total = 0};
    struct hf_pool *pool = hf_pool_at(kind, device);
    if (pool == NULL || out == NULL || out->size < offsetof(struct hf_space_stats, limit))
        return -EINVAL;
    if (atomic_load_explicit(&pool->open, memory_order_acquire)) {
        /* Whoever loses CUDA does not look at all pools' blocks. A child's list may be in use. */
        if (atomic_load(&pool->lost) && !atomic_load(&hf_spaces_forked))
            hf_pending_leak(pool);
        if (stream == HF_STREAM_ANY)
            stats_of_pool(pool, &stats);
        else if (stats_of_stream(pool, stream, &stats) != 0)
            return -ENOENT;
    } else if (stream != HF_STREAM_ANY) {
        return -ENOENT;
    }
    hf_sized_copy(out, &stats, sizeof stats);
    return 0;
}

/* ---- managing ---- */

int hf_spaces_limit(enum hf_space_kind kind, int device, uint64_t bytes)
{
    struct hf_pool *pool = hf_pool_at(kind, device);
    if (pool == NULL)
        return -EINVAL;
    /* Before the pool is opened: a device that cannot map takes its only block then. */
    if (!atomic_load(&pool->open) && bytes != 0)
        atomic_store(&pool->limit, bytes);
    int error = hf_pool_open(pool);
    if (error == 0)
        atomic_store(&pool->limit, bytes != 0 ? bytes : hf_pool_default_limit(pool));
    return error;
}

int hf_spaces_trim(enum hf_space_kind kind, int device, uint64_t keep, uint64_t *released)
{
    struct hf_pool *pool = hf_pool_at(kind, device);
    if (pool == NULL)
        return -EINVAL;
    int error = hf_pool_open(pool);
    if (error != 0)
        return error;
    (void)hf_pending_wait(pool, HF_WAIT_ALL);
    uint64_t bytes = hf_pool_trim(pool, keep);
    atomic_store(&pool->gathered, 0);
    if (released != NULL)
        *released = bytes;
    return 0;
}

/* A stream may be wrong. */
static int public(int error)
{
    return error == -EINVAL ? error : hf_cuda_public(error);
}

int hf_spaces_order(int device, void *before, void *after)
{
    if (device < 0 || after == HF_STREAM_DONE || after == HF_STREAM_ANY)
        return -EINVAL;
    int devices = hf_cuda_find();
    if (devices == 0)
        devices = hf_cuda_devices();
    if (devices < 0)
        return public(devices);
    if (device >= devices)
        return -EINVAL;
    if (before == HF_STREAM_DONE || before == after)
        return 0;
    return public(before == HF_STREAM_ANY ? hf_cuda_wait(device)
                                          : hf_cuda_order(device, before, after));
}

int hf_spaces_reason(enum hf_space_kind kind, int device, char *text, size_t size)
{
    struct hf_pool *pool = hf_pool_at(kind, device);
    if (text == NULL || size == 0 || (pool == NULL && kind != HF_SPACE_HOST))
        return -EINVAL;
    const char *why = "";
    text[0] = '\0';
    if (kind == HF_SPACE_HOST)
        return 0;
    if (atomic_load(&hf_spaces_forked))
        why =
            "CUDA cannot be used in a forked child: start worker processes by spawn or forkserver";
    else if (atomic_load(&pool->lost))
        why = "the device's context has ended, or the CUDA runtime is unloading";
    else
        hf_cuda_reason(text, size);
    if (why[0] != '\0') {
        size_t length = strlen(why) < size - 1 ? strlen(why) : size - 1;
        memcpy(text, why, length);
        text[length] = '\0';
    }
    return 0;
}
