/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosted allocators: allocators that keep their own books on pages of the region.
 *
 * A hosted allocator's pages are lent: jemalloc never sees them, and an address there is in no
 * block of the heap. A free() of such an address goes to the hosted allocator, which decides
 * whether it may be freed here and now: CPython's pymalloc and its mimalloc (loader/host/), spaces.
 *
 * A map with one byte per granule of the region records which hosted allocator has it. The map is
 * made when pages are first lent; until then a lookup costs one load. hosted.c owns and locks
 * it.
 */
#ifndef HOMEFREE_ALLOC_OWNER_HOSTED_H
#define HOMEFREE_ALLOC_OWNER_HOSTED_H

#include "alloc/heap/internal.h"

/* Pages are lent in whole granules, aligned to a granule. */
#define HF_HOSTED_GRANULE_BITS 18
#define HF_HOSTED_GRANULE      ((size_t)1 << HF_HOSTED_GRANULE_BITS)

/* A hosted allocator's functions; ptr always lies in its pages. caller: an address in the calling
 * code. Each follows the conventions of its libc counterpart, or ends the process (fatal.h). */
struct hf_hosted {
    void (*free)(void *ptr, const void *caller);
    void *(*realloc)(void *ptr, size_t size, const void *caller);
    size_t (*usable_size)(const void *ptr, const void *caller);
    void (*describe)(const void *ptr, struct hf_owner *owner);
    bool records; /* its functions tell watches themselves which blocks come and go */
    /* Gives unused memory back; false if it cannot now. May wait for the allocator's other threads:
     * the caller holds no lock that these may want. NULL: it has no such function. */
    bool (*trim)(void);
};

/*
 * Lends `size` bytes of zeros at a multiple of `alignment`. Both are multiples of
 * HF_HOSTED_GRANULE, and the alignment is a power of two. The memory has the protection, which the
 * hosted allocator may change. There are at most HF_HOSTED_MAX hosted allocators, which must never
 * be destroyed. Returns NULL if the region is full, the system refuses memory, or the process is
 * forking. Any thread; takes hosted.c's lock, then the region's.
 */
void *hf_hosted_map(const struct hf_hosted *hosted, size_t size, size_t alignment, int protection);
#define HF_HOSTED_MAX 5

/* Takes back lent pages, any part of what hf_hosted_map() returned: whole granules can be lent
 * again, pages of others lose what they hold. Any thread. */
void hf_hosted_unmap(void *address, size_t size);

/* Visits the pages that a hosted allocator has, in ascending order. Others may be lent and taken
 * back meanwhile. */
void hf_hosted_visit(const struct hf_hosted *hosted,
                     void (*visit)(const void *start, size_t size, void *context), void *context);

/* For fork (start/fork_handlers.c): returns the pages that were taken back while the gate was
 * closed. */
void hf_hosted_catch_up(void);

/* The hosted allocator at an address of the region; NULL if the page is not lent. Lock-free. */
extern const uint8_t *hf_hosted_who __attribute__((visibility("hidden")));
const struct hf_hosted *hf_hosted_at(size_t granule);
static inline const struct hf_hosted *hf_hosted_of(const void *ptr)
{
    const uint8_t *map = __atomic_load_n(&hf_hosted_who, __ATOMIC_ACQUIRE);
    if (HF_LIKELY(map == NULL))
        return NULL;
    size_t granule = ((uintptr_t)ptr - hf_region.base) >> HF_HOSTED_GRANULE_BITS;
    return HF_LIKELY(__atomic_load_n(&map[granule], __ATOMIC_RELAXED) == 0) ? NULL
                                                                            : hf_hosted_at(granule);
}

/* For hf_owner_of(): fills owner if an address of the region is a hosted allocator's. Its pages
 * outside the region are a foreign allocator's (foreign.h, HF_FREE_HOSTED). */
bool hf_hosted_describe(const void *ptr, struct hf_owner *owner);

#endif
