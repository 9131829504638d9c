/*
 * What alloc/'s files share, and the words they share it in.
 *
 * heap      the one allocator that homefree gives a process; jemalloc inside
 * region    the reserved address range that all of the heap's pages come from; region.c
 * owned     inside the region
 * foreign   a pointer that is not owned
 * home      the allocator that owns a foreign pointer, as far as can be told
 * foreign allocator another allocator in the process that says itself what it owns; owner/foreign.c
 * copy      one loaded libhomefree. Exactly one copy in a process is the heap; others forward to
 *           it, or (when they do not fit it) to libc; instance.c
 * start     making a copy the heap, or a forwarder
 */
#ifndef HOMEFREE_INTERNAL_H
#define HOMEFREE_INTERNAL_H

#define HF_NO_INLINE
#include <homefree/homefree.h>

#define HF_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define HF_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define HF_PAGE_2M ((size_t)2 << 20)

#include "alloc/jemalloc/seam.h"

/* The ownership test, with no GOT between it and the bounds. */
static inline bool hf_owned(const void *ptr)
{
    return (uintptr_t)ptr - hf_region.base < hf_region.size;
}

#endif
