/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The region: the one address range that holds all of the heap's pages.
 *
 * A pointer is owned if it lies in the region, so nothing else may be mapped there, and the heap
 * may map nothing elsewhere. The region is reserved in steps, without memory behind it, grows at
 * its end and never shrinks. region.c owns it and locks it.
 */
#ifndef HOMEFREE_ALLOC_HEAP_REGION_H
#define HOMEFREE_ALLOC_HEAP_REGION_H

#include "alloc/heap/internal.h"

/* The same bounds as hf_region, but empty in a copy that forwards: the addresses of which this copy
 * has tables. */
struct hf_region_here {
    uintptr_t base;
    size_t size;
};
extern struct hf_region_here hf_region_here __attribute__((visibility("hidden")));

/*
 * Reserves the first HF_REGION_MIN bytes of the region and sets its bounds. Called once. The region
 * grows to at most `size` bytes, less in a small address space. Returns 0, or -ENOMEM if there are
 * no addresses for it.
 */
int hf_region_reserve(size_t size);
#define HF_REGION_MIN ((size_t)16 << 20)

/* Writes the region's bounds there, and keeps them up to date. False if that is done for too many.
 */
bool hf_region_publish(struct hf_region_range *range);

/* mmap(2) and munmap(2) for private anonymous memory in the region, for jemalloc
 * (pages/pages.c). A hint is refused with ENOMEM; jemalloc then does without. MAP_FIXED changes
 * pages that the caller already has. Any thread, inside the gate (fork_gate.h); takes a leaf lock;
 * sets errno as mmap does. */
void *hf_region_map(void *hint, size_t size, int protection, int flags);
int hf_region_unmap(void *address, size_t size);

/* The same for pages that jemalloc does not see (owner/hosted.h), at a multiple of `alignment`, a
 * power of two. Returned with hf_region_unmap(). */
void *hf_region_map_aligned(size_t size, size_t alignment, int protection);

/* The table with a byte, 0 at first, for each 2^shift bytes of the region, which grows with it;
 * made at the first call. NULL if there is no memory, or there are three of other shifts. Any
 * thread, inside the gate. */
uint8_t *hf_region_table(unsigned shift);

/* Whether a block of that size is worth moving with its pages, and what does so: `size` bytes, to
 * where `to_size` bytes are free. Never needs memory for more than a piece of both. False if the
 * pages at `from`, which are empty afterwards, could not be mapped again. */
bool hf_region_moves(size_t size);
bool hf_region_move(char *to, size_t to_size, char *from, size_t size);

/* Lets a block that is one mapping have `more` bytes where it is, if those behind it are free; they
 * can be used like the block. False: the block is as it was; if another thread took the last of a
 * limit meanwhile, those behind it are lost to the region. */
bool hf_region_extend(char *start, size_t size, size_t more);

/* Whether there may be so many blocks of that size, or larger ones, that lie where hf_region_move()
 * has moved them: each is a mapping. Any thread, without a lock. */
bool hf_region_can_move(size_t size);

/* Bytes of the region in use. Any thread, without a lock. */
size_t hf_region_used(void);

/* Whether the heap ever mapped pages at an address of the region or above it: what lies beyond was
 * never a block. Any thread, without a lock. */
bool hf_region_was_reached(const void *at);

#endif
