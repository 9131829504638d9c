/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the pools: reserving their addresses, backing parts of them, and giving those back. `lock`
 * of a pool guards its units and what is backed; it is held while CUDA works for this pool, so that
 * nobody uses a part that is being given back. `opening` serialises the first use of all pools.
 * Reading `backed` takes no lock: a block's owner reads what concerns its block alone, and the
 * lists of free ranges order that after hf_pool_trim().
 */
#include "satellites/cuda/space/pool.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/seal.h"
#include "satellites/cuda/cuda_core.h"
#include "satellites/cuda/driver/cuda.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE HF_VARENA_GRANULE

enum {
    ADDRESSES = 32, /* a device's, as many times its memory */
    MANY_STREAMS = 8,
    PIECE_GRANULES = 16,  /* a device's unit has at most 32 MiB, … */
    PIECES = 128,         /* … and is at most this part of what is reserved */
    SEGMENT_GRANULES = 32 /* … a small one of pinned memory at most 64 MiB */
};

struct hf_pool hf_pools[1 + HF_DEVICES_MAX];
_Atomic(unsigned) hf_pools_open;
_Atomic(bool) hf_spaces_forked;

static pthread_mutex_t HF_FORK_LOCK opening = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(unsigned) opening_threads; /* that have the lock or wait for it */

static HF_SEALED_UNION(const struct hf_pool_owners *, owners) table HF_SEALED;

/* ---- reserving ---- */

static uint64_t host_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t hf_pool_default_limit(const struct hf_pool *pool)
{
    return pool->kind == HF_SPACE_PINNED ? pool->total / 2 : pool->total;
}

/* Zeroed memory that is only taken as it is used. */
static void *lazy_table(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, size, MADV_DONTDUMP);
    return at;
}

/* Pages of the region that are lent to the pool: what lies there goes home by a range check. */
static int reserve_pinned(size_t size, uintptr_t *out)
{
    void *at = hf_core()->lend(table.owners->pinned, size, GRANULE);
    if (at == NULL)
        return -ENOMEM;
    /* Readable and writable is only what is page-locked. */
    if (mprotect(at, size, PROT_NONE) != 0) {
        hf_core()->take_back(at, size);
        return -ENOMEM;
    }
    (void)madvise(at, size, MADV_DONTDUMP);
    *out = (uintptr_t)at;
    return 0;
}

/* cudaMalloc() aligns as it likes. */
static int reserve_whole(struct hf_pool *pool, size_t *size, uintptr_t *at)
{
    const int error = hf_cuda_block(pool->device, *size, &pool->block);
    if (error != 0)
        return error;
    *at = (pool->block + GRANULE - 1) & -GRANULE;
    *size = (*size - (*at - pool->block)) & -GRANULE;
    return 0;
}

static int reserve_addresses(struct hf_pool *pool, size_t *size, uintptr_t *at)
{
    if (pool->kind == HF_SPACE_PINNED)
        return reserve_pinned(*size, at);
    return pool->whole ? reserve_whole(pool, size, at)
                       : hf_cuda_reserve(pool->device, *size, GRANULE, at);
}

static void unreserve(struct hf_pool *pool, size_t size, uintptr_t at)
{
    if (pool->kind == HF_SPACE_PINNED)
        hf_core()->take_back((void *)at, size);
    else if (pool->whole)
        (void)hf_cuda_unblock(pool->device, pool->block);
    else
        (void)hf_cuda_unreserve(pool->device, at, size);
}

static int reserve(struct hf_pool *pool, size_t size)
{
    uintptr_t at;
    const int error = reserve_addresses(pool, &size, &at);
    if (error != 0)
        return error;
    const size_t granules = size / GRANULE;
    pool->backed = lazy_table(granules);
    pool->units = lazy_table(granules * sizeof *pool->units);
    pool->counts = lazy_table(granules * sizeof *pool->counts);
    if (pool->backed != NULL && pool->units != NULL && pool->counts != NULL &&
        hf_varena_area_open(&pool->area, at, size))
        return 0;
    if (pool->backed != NULL)
        (void)munmap(pool->backed, granules);
    if (pool->units != NULL)
        (void)munmap(pool->units, granules * sizeof *pool->units);
    if (pool->counts != NULL)
        (void)munmap(pool->counts, granules * sizeof *pool->counts);
    unreserve(pool, size, at);
    return -ENOMEM;
}

/* Addresses cost nothing, each stream has its own, and more of them keep large blocks from
 * fragmenting the rest: many times what there is. Pinned memory's are the region's, of which all
 * pools together get at most as many as half of it. */
static int reserve_most(struct hf_pool *pool, int devices)
{
    uint64_t wanted = pool->total * (pool->kind == HF_SPACE_PINNED ? 2 : ADDRESSES);
    uint64_t most = hf_core()->region->limit / 2 / ((unsigned)devices + 2);
    if (wanted > most)
        wanted = most;
    if (pool->whole) {
        uint64_t available, total;
        int error = hf_cuda_memory(pool->device, &available, &total);
        if (error != 0)
            return error;
        uint64_t limit = atomic_load(&pool->limit);
        wanted = limit != 0 && limit < available / 2 ? limit : available / 2;
    }
    for (size_t size = wanted & -GRANULE; size >= 8 * GRANULE; size = (size / 2) & -GRANULE) {
        int error = reserve(pool, size);
        if (error != -ENOMEM)
            return error;
    }
    return -ENOMEM;
}

static int open_locked(struct hf_pool *pool)
{
    int number = (int)(pool - hf_pools) - 1;
    int devices = hf_cuda_devices();
    if (devices < 0)
        return hf_cuda_public(devices);
    if (number >= devices)
        return -EINVAL;
    pool->kind = number < 0 ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
    pool->device = number;
    if (number < 0) {
        pool->total = host_memory();
    } else {
        uint64_t available;
        int error = hf_cuda_memory(number, &available, &pool->total);
        if (error != 0)
            return hf_cuda_public(error);
        int maps = hf_cuda_can_map(number);
        if (maps < 0)
            return hf_cuda_public(maps);
        size_t granularity = 0;
        error = maps != 0 ? hf_cuda_granularity(number, &granularity) : -ENOTSUP;
        if (error != 0 && error != -ENOTSUP)
            return hf_cuda_public(error);
        pool->whole = error != 0 || granularity > GRANULE;
        if (!table.owners->add_device())
            return -ENOMEM;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->settling, NULL);
    pthread_mutex_init(&pool->waiting, NULL);
    pool->pending_end = &pool->pending;
    int error = reserve_most(pool, devices);
    if (error != 0)
        return hf_cuda_public(error);
    if (atomic_load(&pool->limit) == 0)
        atomic_store(&pool->limit, hf_pool_default_limit(pool));
    if (pool->whole) {
        memset(pool->backed, 1, pool->area.size / GRANULE);
        atomic_store(&pool->reserved, pool->area.size);
        atomic_store(&pool->reserved_peak, pool->area.size);
        atomic_store(&pool->grown, 1);
    }
    atomic_store_explicit(&pool->open, true, memory_order_release);
    if (atomic_load(&hf_pools_open) < (unsigned)(number + 2))
        atomic_store_explicit(&hf_pools_open, (unsigned)(number + 2), memory_order_release);
    return 0;
}

void hf_pools_lose(void)
{
    for (size_t i = 0; i < sizeof hf_pools / sizeof hf_pools[0]; i++) {
        atomic_store(&hf_pools[i].lost, true);
        hf_fast_close(&hf_fast_spaces.at[i]);
    }
}

int hf_pool_open(struct hf_pool *pool)
{
    if (HF_UNLIKELY(atomic_load_explicit(&hf_spaces_forked, memory_order_relaxed) ||
                    atomic_load_explicit(&pool->lost, memory_order_relaxed)))
        return -ENODEV;
    if (HF_LIKELY(atomic_load_explicit(&pool->open, memory_order_acquire)))
        return 0;
    const int found =
        hf_cuda_find(); /* takes the dynamic linker's lock, whose holder may come here */
    if (found < 0)
        return hf_cuda_public(found);
    atomic_fetch_add(&opening_threads, 1);
    pthread_mutex_lock(&opening);
    int error = atomic_load(&pool->open) ? 0 : open_locked(pool);
    pthread_mutex_unlock(&opening);
    atomic_fetch_sub(&opening_threads, 1);
    return error;
}

/* ---- the addresses of arenas ---- */

/* Gives an arena a part of the range; called under the arena's lock. */
static void *take_range(void *space, size_t size)
{
    struct hf_pool *pool = space;
    size_t at = atomic_load(&pool->top);
    do
        if (size > pool->area.size - at)
            return NULL;
    while (!atomic_compare_exchange_weak(&pool->top, &at, at + size));
    if (pool->kind == HF_SPACE_PINNED) {
        /* The runtime copies no range that two registrations cover, and ranges that were given to
         * an arena apart never merge: each is a unit. */
        size_t first = at / GRANULE, count = size / GRANULE;
        pool->counts[first] = (uint32_t)count;
        for (size_t i = first; i < first + count; i++)
            __atomic_store_n(&pool->units[i], (uint32_t)first + 1, __ATOMIC_RELEASE);
    }
    return (void *)(pool->area.base + at);
}

static size_t lacks(void *space, const void *at, size_t size, size_t most)
{
    return hf_pool_lacks(space, at, size, most);
}

struct hf_varena *hf_pool_varena(struct hf_pool *pool)
{
    return hf_varena_open(&pool->area, take_range, lacks, pool);
}

bool hf_pool_extend(struct hf_pool *pool, struct hf_varena *varena, size_t size)
{
    uint64_t want = (size + GRANULE - 1) & -GRANULE;
    uint64_t least = want;
    if (pool->kind == HF_SPACE_PINNED) {
        uint64_t step = atomic_load(&pool->reserved) / 16 & -GRANULE;
        if (step > SEGMENT_GRANULES * GRANULE)
            step = SEGMENT_GRANULES * GRANULE;
        if (want < step)
            want = step;
    } else {
        /* More than the block, so that ranges merge. The first streams get much; what they leave is
         * enough for all others. */
        uint64_t left = pool->area.size - atomic_load(&pool->top);
        uint32_t streams = atomic_load(&pool->streams_count);
        uint64_t part =
            left / (streams <= MANY_STREAMS ? ADDRESSES : 8 * HF_STREAMS_MAX) & -GRANULE;
        if (want < part)
            want = part;
    }
    return hf_varena_add(varena, want) || (want != least && hf_varena_add(varena, least));
}

/* ---- backing ---- */

static void raise_to(_Atomic(uint64_t) *peak, uint64_t value)
{
    uint64_t old = atomic_load_explicit(peak, memory_order_relaxed);
    while (old < value && !atomic_compare_exchange_weak(peak, &old, value))
        ;
}

static int back_unit(struct hf_pool *pool, size_t first, size_t count)
{
    uint64_t size = (uint64_t)count * GRANULE;
    uint64_t reserved = atomic_load(&pool->reserved);
    if (reserved + size > atomic_load(&pool->limit))
        return -ENOMEM;
    uintptr_t at = pool->area.base + first * GRANULE;
    int error;
    if (pool->kind == HF_SPACE_PINNED) {
        if (mprotect((void *)at, size, PROT_READ | PROT_WRITE) != 0)
            return -ENOMEM;
        error = hf_cuda_lock((void *)at, size);
        if (error != 0)
            (void)mprotect((void *)at, size, PROT_NONE);
    } else {
        error = hf_cuda_map(pool->device, at, size);
    }
    if (error != 0)
        return error;
    pool->counts[first] = (uint32_t)count;
    for (size_t i = first; i < first + count; i++) {
        pool->units[i] = (uint32_t)first + 1;
        __atomic_store_n(&pool->backed[i], 1, __ATOMIC_RELEASE);
    }
    atomic_store(&pool->reserved, reserved + size);
    raise_to(&pool->reserved_peak, reserved + size);
    atomic_fetch_add(&pool->grown, 1);
    return 0;
}

/* The longest piece of a device's memory that starts at a granule: a power of two of granules,
 * aligned to its size, none of them backed, not beyond `end`. */
static size_t piece(const struct hf_pool *pool, size_t first, size_t end)
{
    size_t most = atomic_load(&pool->reserved) / GRANULE / PIECES, count = 1;
    while (count < PIECE_GRANULES && count * 2 <= most)
        count *= 2;
    while (count > 1 && (first % count != 0 || first + count > end))
        count /= 2;
    for (size_t i = 1; i < count; i++)
        if (pool->backed[first + i] != 0)
            return piece(pool, first, first + i);
    return count;
}

int hf_pool_back(struct hf_pool *pool, const void *block, size_t size)
{
    size_t offset = (uintptr_t)block - pool->area.base;
    size_t end = (offset + size + GRANULE - 1) / GRANULE;
    int error = 0;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = offset / GRANULE; i < end && error == 0;) {
        if (pool->backed[i] != 0) {
            i++;
        } else if (pool->kind == HF_SPACE_PINNED) {
            size_t first = pool->units[i] - 1, count = pool->counts[first];
            error = back_unit(pool, first, count);
            i = first + count;
        } else {
            size_t count = piece(pool, i, end);
            error = back_unit(pool, i, count);
            i += count;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    if (error == -ESHUTDOWN)
        hf_pools_lose();
    return hf_cuda_public(error);
}

/* ---- trimming ---- */

/* Work in contexts of the user's, which hf_cuda_wait() knows nothing of. The streams of the
 * device's primary context are not asked: they may have been destroyed. */
static int wait_elsewhere(struct hf_pool *pool)
{
    int error = 0;
    uint32_t streams = atomic_load_explicit(&pool->streams_count, memory_order_acquire);
    for (uint32_t i = 0; i < streams && error == 0; i++) {
        struct hf_cuda_event *event = NULL;
        void *stream = atomic_load(&pool->streams[i].work);
        if (stream == HF_STREAM_NOBODY)
            continue;
        error = hf_cuda_mark(pool->device, stream, &event);
        if (error == 0)
            error = hf_cuda_await(event);
        hf_cuda_drop(event);
        if (error == -EINVAL)
            error = 0; /* a stream that was destroyed */
    }
    return error;
}

int hf_pool_wait(struct hf_pool *pool)
{
    int error = hf_cuda_wait(pool->device);
    if (error == 0 && atomic_load(&pool->is_elsewhere))
        error = wait_elsewhere(pool);
    if (error == -ESHUTDOWN)
        hf_pools_lose();
    return error;
}

enum { LEAVING = 2 };

struct marking {
    struct hf_pool *pool;
    bool any;
};

/* Marks the backed units that lie in a free range. Runs under the arena's lock, so
 * nobody can take this one; who takes it later finds it not backed, and waits for the pool's. */
static void mark_units(void *context, void *at, size_t size)
{
    struct marking *marking = context;
    struct hf_pool *pool = marking->pool;
    size_t offset = (uintptr_t)at - pool->area.base;
    size_t i = (offset + GRANULE - 1) / GRANULE, end = (offset + size) / GRANULE;
    while (i < end) {
        size_t first = pool->backed[i] == 1 ? pool->units[i] - 1 : 0;
        if (pool->backed[i] != 1 || first != i || first + pool->counts[first] > end) {
            i++;
            continue;
        }
        for (size_t j = first; j < first + pool->counts[first]; j++)
            __atomic_store_n(&pool->backed[j], 0, __ATOMIC_RELEASE);
        pool->units[first] |= (uint32_t)LEAVING << 30;
        marking->any = true;
        i += pool->counts[first];
    }
}

static bool unback_unit(struct hf_pool *pool, size_t first)
{
    size_t count = pool->counts[first], size = count * GRANULE;
    uintptr_t at = pool->area.base + first * GRANULE;
    int error = pool->kind == HF_SPACE_PINNED ? hf_cuda_unlock((void *)at)
                                              : hf_cuda_unmap(pool->device, at, size);
    if (error != 0) {
        for (size_t i = first; i < first + count; i++)
            __atomic_store_n(&pool->backed[i], 1, __ATOMIC_RELEASE);
        return false;
    }
    if (pool->kind == HF_SPACE_PINNED) {
        (void)madvise((void *)at, size, MADV_DONTNEED);
        (void)mprotect((void *)at, size, PROT_NONE);
    }
    atomic_fetch_sub(&pool->reserved, size);
    return true;
}

uint64_t hf_pool_trim(struct hf_pool *pool, uint64_t keep)
{
    uint32_t streams = atomic_load_explicit(&pool->streams_count, memory_order_acquire);
    for (uint32_t i = 0; i < streams; i++)
        hf_varena_empty(pool->streams[i].varena);
    if (pool->whole)
        return 0;
    uint64_t before = atomic_load(&pool->reserved);
    struct marking marking = {.pool = pool};
    pthread_mutex_lock(&pool->lock);
    if (before > keep)
        for (uint32_t i = 0; i < streams; i++)
            hf_varena_each_free(pool->streams[i].varena, mark_units, &marking);
    /* What was freed on a stream may still be in use there. Nobody can take what is marked. */
    bool idle = !marking.any || pool->kind == HF_SPACE_PINNED || hf_pool_wait(pool) == 0;
    size_t end = atomic_load(&pool->top) / GRANULE;
    for (size_t i = end; i-- > 0;) {
        if (pool->units[i] >> 30 != LEAVING)
            continue;
        pool->units[i] &= ~((uint32_t)LEAVING << 30);
        if (idle && atomic_load(&pool->reserved) > keep) {
            (void)unback_unit(pool, i);
            continue;
        }
        for (size_t j = i; j < i + pool->counts[i]; j++)
            __atomic_store_n(&pool->backed[j], 1, __ATOMIC_RELEASE);
    }
    uint64_t after = atomic_load(&pool->reserved);
    pthread_mutex_unlock(&pool->lock);
    return before > after ? before - after : 0;
}

void hf_pool_leak(struct hf_pool *pool, struct hf_stream *stream, size_t size)
{
    atomic_fetch_add(&pool->leaked, size);
    atomic_fetch_add(&pool->leaked_blocks, 1);
    if (stream != NULL)
        atomic_fetch_add(&stream->leaked, size);
}

/* ---- fork ---- */

void hf_pools_in_child(void)
{
    /* The child may be the first to use CUDA, unless a thread was looking for it. */
    if (!hf_cuda_found() && atomic_load(&opening_threads) == 0)
        return;
    atomic_store(&hf_spaces_forked, true);
    hf_cuda_forbid();
    for (size_t i = 0; i < sizeof hf_pools / sizeof hf_pools[0]; i++) {
        if (!atomic_load(&hf_pools[i].open))
            continue;
        hf_fast_close(&hf_fast_spaces.at[i]);
        pthread_mutex_init(&hf_pools[i].lock, NULL);
        pthread_mutex_init(&hf_pools[i].settling, NULL);
        pthread_mutex_init(&hf_pools[i].waiting, NULL);
    }
}

void hf_pool_start(const struct hf_pool_owners *owners)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.owners = owners;
    hf_seal_close(&seal);
}
