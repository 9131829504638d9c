/*
 * Small blocks of the plain heap, found by one lookup. The only place above the seam that knows
 * which front end the heap has. Owns nothing, takes no lock. Any thread, for a pointer of the
 * region, in a copy that may forward.
 */
#ifndef HOMEFREE_PLAIN_SMALL_H
#define HOMEFREE_PLAIN_SMALL_H

#include "alloc/heap/internal.h"

#ifdef HF_HEAP_SPANS
#    include "alloc/spans/lookup.h"

/* The class of the blocks at an address, and their size. False if there are none, or no block of
 * them can start there. Whether the block is live is not checked; but it can be read. */
static inline __attribute__((always_inline)) bool hf_plain_small(const void *ptr, size_t *class,
                                                                 size_t *room)
{
    return hf_small_at(ptr, class, room);
}

/* The size of the blocks of a class. */
static inline size_t hf_plain_class_size(size_t class)
{
    return hf_class_sizes[class];
}

#else

extern const size_t hf_class_sizes[] __asm__("hf_je_sz_index2size_tab")
    __attribute__((visibility("hidden")));

static inline __attribute__((always_inline)) bool hf_plain_small(const void *ptr, size_t *class,
                                                                 size_t *room)
{
    const uintptr_t *map = hf_page_map;
    if (HF_UNLIKELY(map == NULL))
        return false;
    const uintptr_t page = __atomic_load_n(&map[(uintptr_t)ptr >> HF_LG_PAGE], __ATOMIC_RELAXED);
    if (HF_UNLIKELY((page & HF_PAGE_SMALL) == 0))
        return false;
    *class = page >> HF_LG_ADDRESS;
    *room = hf_class_sizes[*class];
    /* Behind the last block of a slab there need be no memory. */
    return HF_LIKELY(((uintptr_t)ptr ^ ((uintptr_t)ptr + *room - 1)) >> HF_LG_PAGE == 0) ||
           HF_LIKELY(hf_heap_room(ptr) != 0);
}

static inline size_t hf_plain_class_size(size_t class)
{
    return hf_class_sizes[class];
}

#endif

#endif
