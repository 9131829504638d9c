/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pools: the memory of one space of one device.
 *
 * pool     a range of addresses, reserved when the space is first used, of which the used parts are
 *          backed
 * backed   page-locked (pinned memory), or mapped to memory of the device
 * unit     what is backed and given back as a whole: one registration or one mapping
 * granule  2 MiB; units are whole granules
 * arena   what manages blocks in a part of the range (arena/varena.h)
 * stream   for a device, each stream that allocates has an arena of its own: what is freed on a
 *          stream may be handed out again on that stream at once
 *
 * pool.c reserves, backs and trims; streams.c finds arenas; pending.c keeps blocks that a device
 * may still use; spaces.c allocates and frees; owners.c makes frees that do not say which stream
 * find the pools. Locks, in this order: a pool's `lock` (backing, units, new arenas), then
 * an arena's. A pool's `waiting` guards its pending blocks alone; neither is held during the other.
 * No lock but `lock` is held while CUDA is called.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_POOL_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_POOL_H

#include "alloc/owner/hosted.h"
#include "alloc/space/cuda_satellite.h"
#include "satellites/cuda/varena/varena.h"

#include <pthread.h>
#include <stdatomic.h>

_Static_assert(1 + HF_DEVICES_MAX == HF_SPACES_MAX, "pinned memory and each device");
enum { HF_STREAMS_MAX = 256, HF_STREAM_SLOTS = 512 };
enum { HF_STREAMS_LEFT = 64, HF_USE_LISTS = 1024 };

/* cudaStreamLegacy and cudaStreamPerThread. */
#define HF_STREAM_LEGACY     ((void *)(uintptr_t)1)
#define HF_STREAM_PER_THREAD ((void *)(uintptr_t)2)

/* No stream: of an entry that waits for one. */
#define HF_STREAM_NOBODY ((void *)(intptr_t)-3)

struct hf_pending;
struct hf_use;

/* A stream's arena. The arena stays; the stream may become another one (streams.c). */
struct hf_stream {
    _Atomic(void *) stream; /* that may take blocks, and frees them at once */
    _Atomic(void *) work;   /* the stream whose work may still use what is free here */
    struct hf_varena *varena;
    uint64_t bound;          /* when it got the stream; grows */
    _Atomic(uint64_t) large; /* bytes of live large blocks */
    _Atomic(uint64_t) pending, leaked;
};

struct hf_pool {
    /* Written once, before `open`. */
    struct hf_varena_area area;
    uintptr_t block;  /* of a device that cannot map: what cudaMalloc() returned */
    uint8_t *backed;  /* by granule: 1 if backed */
    uint32_t *units;  /* by granule: the first granule of its unit, plus 1; 0 if it has none */
    uint32_t *counts; /* by first granule: the unit's granules */
    enum hf_space_kind kind;
    int device; /* -1: pinned */
    bool whole; /* one unit, from cudaMalloc(): the device cannot map */

    _Atomic(bool) open;         /* what is above, and total, may be read */
    _Atomic(bool) lost;         /* the device, or the process, cannot use it any more */
    _Atomic(bool) is_elsewhere; /* a stream is one of a context of the user's */
    _Atomic(uint32_t) grown;
    uint64_t total; /* bytes that the device, or the host, has */
    pthread_mutex_t lock;
    _Atomic(size_t) top; /* bytes of the range that arenas have */
    _Atomic(uint64_t) limit, reserved, reserved_peak, allocated_peak, pending_bytes, leaked,
        leaked_blocks;
    _Atomic(uint64_t) gathered; /* spaces.c: what was reserved when units were moved */

    /* Streams' entries; slots are hashed by the stream, and hold indices plus 1. */
    _Atomic(uint32_t) streams_count;
    uint32_t streams_vacant; /* of these, nobody's */
    uint32_t streams_easy;   /* as many before any becomes nobody's */
    uint32_t left_count;     /* entries that became nobody's, and whose the last ones were */
    void *streams_left[HF_STREAMS_LEFT];
    uint64_t bound;         /* times that an entry got a stream */
    struct hf_stream *fast; /* the entry that the fast paths know */
    struct hf_stream streams[HF_STREAMS_MAX];
    _Atomic(uint16_t) slots[HF_STREAM_SLOTS];

    pthread_mutex_t settling; /* whoever took blocks off the list; before `waiting` */
    pthread_mutex_t waiting;
    struct hf_pending *pending, **pending_end; /* oldest first */
    _Atomic(uint32_t) pending_count, any_count;
    _Atomic(struct hf_use *) uses[HF_USE_LISTS]; /* by block; counted in hf_pool_fast() */
};

/* The pools: pinned memory, then devices. */
extern struct hf_pool hf_pools[1 + HF_DEVICES_MAX];

/* The pool of a kind and device, open or not; NULL if there can be none. */
static inline struct hf_pool *hf_pool_at(enum hf_space_kind kind, int device)
{
    if (kind == HF_SPACE_PINNED)
        return &hf_pools[0];
    if (kind != HF_SPACE_DEVICE || device < 0 || device >= HF_DEVICES_MAX)
        return NULL;
    return &hf_pools[1 + device];
}

/* The pool that an address lies in, or NULL. Lock-free; reads only addresses. */
extern _Atomic(unsigned) hf_pools_open; /* the pools before this number may be open */
static inline struct hf_pool *hf_pool_of(const void *ptr)
{
    unsigned count = atomic_load_explicit(&hf_pools_open, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if ((uintptr_t)ptr - hf_pools[i].area.base < hf_pools[i].area.size)
            return &hf_pools[i];
    return NULL;
}

/* What the fast paths know of the pool. */
static inline struct hf_fast_space *hf_pool_fast(const struct hf_pool *pool)
{
    return &hf_fast_spaces.at[pool - hf_pools];
}

/* One more or fewer of the streams that also use blocks, which the fast paths know nothing of. Call
 * with `waiting`. */
static inline void hf_pool_count_uses(const struct hf_pool *pool, uint32_t change)
{
    struct hf_fast_space *fast = hf_pool_fast(pool);
    void *frees = pool->kind == HF_SPACE_PINNED ? HF_STREAM_DONE : fast->stream;
    uint32_t uses = fast->uses + change;
    __atomic_store_n(&fast->uses, uses, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fast->frees, uses == 0 ? frees : HF_FAST_NONE, __ATOMIC_SEQ_CST);
}

/* The list of the streams that use a block beside its own. */
static inline _Atomic(struct hf_use *) *hf_pool_uses(struct hf_pool *pool, const void *at)
{
    uint64_t hash = (uintptr_t)at / HF_VARENA_ALIGNMENT * UINT64_C(0x9e3779b97f4a7c15);
    return &pool->uses[(hash >> 48) % HF_USE_LISTS];
}

/* Whether another stream may use a block that the caller has. */
static inline bool hf_pool_may_use(struct hf_pool *pool, const void *at)
{
    return __atomic_load_n(&hf_pool_fast(pool)->uses, __ATOMIC_RELAXED) != 0 &&
           atomic_load_explicit(hf_pool_uses(pool, at), memory_order_relaxed) != NULL;
}

/* No pool can be used any more: the process, or a device's context, is at its end. */
void hf_pools_lose(void);

/* Opens the pool if it is not open. Returns 0 or what hf_space_alloc() returns. */
int hf_pool_open(struct hf_pool *pool);

/* The bytes of those granules of a block that are not backed, or some number above `most`. */
static inline size_t hf_pool_lacks(const struct hf_pool *pool, const void *at, size_t size,
                                   size_t most)
{
    size_t first = ((uintptr_t)at - pool->area.base) / HF_VARENA_GRANULE;
    size_t last = ((uintptr_t)at - pool->area.base + size - 1) / HF_VARENA_GRANULE;
    size_t bytes = 0;
    for (size_t i = first; i <= last && bytes <= most; i++)
        if (__atomic_load_n(&pool->backed[i], __ATOMIC_ACQUIRE) == 0)
            bytes += HF_VARENA_GRANULE;
    return bytes;
}

static inline bool hf_pool_is_backed(const struct hf_pool *pool, const void *at, size_t size)
{
    return hf_pool_lacks(pool, at, size, 0) == 0;
}

/* Backs a block. -ENOMEM if the limit, the device or the host has no room. */
int hf_pool_back(struct hf_pool *pool, const void *at, size_t size);

/* A new arena of the pool; NULL if there can be none. */
struct hf_varena *hf_pool_varena(struct hf_pool *pool);

/* Gives an arena addresses for a large block of that size. */
bool hf_pool_extend(struct hf_pool *pool, struct hf_varena *varena, size_t size);

/* Waits until the device has done everything, also in streams of contexts that are not the device's
 * primary one. 0 or what the seam returns. */
int hf_pool_wait(struct hf_pool *pool);

/* Gives back units in which no block is, until `keep` bytes are backed. Merges the free ranges of
 * all arenas first. Returns how many bytes were given back. */
uint64_t hf_pool_trim(struct hf_pool *pool, uint64_t keep);

/* The default limit in bytes. */
uint64_t hf_pool_default_limit(const struct hf_pool *pool);

/* Counts bytes that cannot be freed. */
void hf_pool_leak(struct hf_pool *pool, struct hf_stream *stream, size_t size);

/* Whether this process is a forked child, which cannot use CUDA. */
extern _Atomic(bool) hf_spaces_forked;

/* Makes frees of a pool's addresses go home. Handed in by owners.c, before the first pool opens. */
struct hf_pool_owners {
    const struct hf_hosted *pinned;
    bool (*add_device)(void); /* false if there is no room; called under a lock of pool.c's */
};
void hf_pool_start(const struct hf_pool_owners *owners);

/* In a forked child. */
void hf_pools_in_child(void);

#endif
