/*
 * Hosted allocators: allocators that keep their own books, but on pages of the region.
 *
 * A hosted allocator's pages are lent: jemalloc never sees them, so an address there has no block
 * of the heap. What is freed there goes to the hosted allocator, which decides whether it may be
 * freed here and now. The one hosted allocator today is CPython's pymalloc (loader/python/).
 *
 * A map with a byte for each granule of the region says who lives there. It is reserved when the
 * first hosted allocator moves in; before that the question costs one load.
 */
#ifndef HOMEFREE_HOSTED_H
#define HOMEFREE_HOSTED_H

#include "alloc/heap/internal.h"

/* Lent pages come in whole granules, and begin at a multiple of one. */
#define HF_HOSTED_GRANULE_BITS 18
#define HF_HOSTED_GRANULE      ((size_t)1 << HF_HOSTED_GRANULE_BITS)

/* What a hosted allocator is asked; ptr is always in its pages. caller: an address in the code that
 * called. Each keeps its function's own conventions, or ends the process (fatal.h). */
struct hf_hosted {
    void (*free)(void *ptr, const void *caller);
    void *(*realloc)(void *ptr, size_t size, const void *caller);
    size_t (*usable_size)(const void *ptr, const void *caller);
    void (*describe)(const void *ptr, struct hf_owner *owner);
};

/*
 * Lends pages: `size` bytes, at a multiple of `alignment`; both are multiples of HF_HOSTED_GRANULE,
 * the alignment a power of two. The bytes are not cleared when others had them before; they are
 * readable and writable. At most HF_HOSTED_MAX different hosted allocators, which live for ever.
 * Result: NULL where the region is full, the system refuses memory, or the process is forking. Any
 * thread; no lock but the region's.
 */
void *hf_hosted_map(const struct hf_hosted *hosted, size_t size, size_t alignment);
#define HF_HOSTED_MAX 4

/* Takes lent pages back, all that one hf_hosted_map() gave. Any thread. */
void hf_hosted_unmap(void *address, size_t size);

/* Part of libhomefree's start (start/start.h). Pages can be lent before it. */
void hf_hosted_start(void);

/* For fork (start/fork_handlers.c): gives back what was taken back while the gate was closed. */
void hf_hosted_catch_up(void);

/* Who lives at an address of the region; NULL where no pages are lent. Lock-free. */
extern const uint8_t *hf_hosted_who __attribute__((visibility("hidden")));
const struct hf_hosted *hf_hosted_at(size_t granule);
static inline const struct hf_hosted *hf_hosted_of(const void *ptr)
{
    const uint8_t *who = __atomic_load_n(&hf_hosted_who, __ATOMIC_ACQUIRE);
    if (HF_LIKELY(who == NULL))
        return NULL;
    size_t granule = ((uintptr_t)ptr - hf_region.base) >> HF_HOSTED_GRANULE_BITS;
    return HF_LIKELY(__atomic_load_n(&who[granule], __ATOMIC_RELAXED) == 0) ? NULL
                                                                            : hf_hosted_at(granule);
}

/* For hf_owner_of(): fills owner where an address of the region is a hosted allocator's. What a
 * hosted allocator has outside is a foreign allocator's (foreign.h, HF_FREE_HOSTED). */
bool hf_hosted_describe(const void *ptr, struct hf_owner *owner);

#endif
