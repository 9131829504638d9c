/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that all of alloc/ shares, and its vocabulary. Owns nothing.
 *
 * heap               the one allocator that homefree gives a process; spans above jemalloc's pages
 * region             the reserved address range that holds all of the heap's pages; region.c
 * owned              inside the region
 * foreign            not owned
 * home               the allocator that owns a foreign pointer, as far as it is known
 * foreign allocator  another allocator in the process, known by its pages or by its own answers;
 *                    owner/foreign.c
 * copy               one loaded libhomefree. Exactly one copy in a process is the heap; the others
 *                    forward to it or, if it is incompatible, to libc; instance.c
 * start              turning a copy into the heap or a forwarder
 */
#ifndef HOMEFREE_ALLOC_HEAP_INTERNAL_H
#define HOMEFREE_ALLOC_HEAP_INTERNAL_H

#define HF_NO_INLINE
#include <homefree/homefree.h>

#define HF_LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define HF_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#define HF_PAGE_2M ((size_t)2 << 20)

#include "alloc/heap/front_end.h"

/* The ownership test. hf_region is hidden, so reading the bounds needs no GOT. */
static inline bool hf_owned(const void *ptr)
{
    return (uintptr_t)ptr - hf_region.base < hf_region.size;
}

#endif
