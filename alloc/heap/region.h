/*
 * The region: the one address range that all of the heap's pages come from.
 *
 * Being inside it is what "owned" means, so nothing else may ever be mapped there, and the heap may
 * map nowhere else. Reserved once, without memory behind it; never given back.
 */
#ifndef HOMEFREE_REGION_H
#define HOMEFREE_REGION_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reserves the region and sets its bounds. size: bytes wanted; halved until the system agrees
 * (RLIMIT_AS, or a small address space), and never more than half of RLIMIT_AS.
 * Result: 0, or -ENOMEM when not even HF_REGION_MIN bytes are to be had. Called once.
 */
int hf_region_reserve(size_t size);
#define HF_REGION_MIN ((size_t)16 << 20)

/* As mmap(2) and munmap(2) for private anonymous memory, for jemalloc (jemalloc/pages.h). A hint is
 * refused (ENOMEM): jemalloc then does without. MAP_FIXED changes pages that it has already.
 * Any thread, inside the gate that fork closes (fork_gate.h); a leaf lock; errno as mmap sets it.
 */
void *hf_region_map(void *hint, size_t size, int protection, int flags);
int hf_region_unmap(void *address, size_t size);

/* The same for pages that jemalloc does not see (hosted allocator.h), at a multiple of `alignment`,
 * a power of two. Given back with hf_region_unmap(). */
void *hf_region_map_aligned(size_t size, size_t alignment, int protection);

/* Bytes of the region that the heap has taken. */
size_t hf_region_used(void);

/* For a forked child; nobody held the region's lock (fork_gate.h). */
void hf_region_reset(void);

#endif
