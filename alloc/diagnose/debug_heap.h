/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The debug heap: allocates and frees like the plain one, gives each block a footer, counts
 * who allocates and who frees, and finds faults. process.c and debug_heap_family.c are its entry
 * points.
 *
 * A fault that would damage the heap is recorded and not carried out: a block that is freed twice
 * stays freed, and a pointer that is no block's is left alone.
 *
 * Any thread, at any stage. Owns nothing; calls the plain heap (plain.h) and takes no lock of its
 * own. errno survives a free.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_DEBUG_HEAP_H
#define HOMEFREE_ALLOC_DIAGNOSE_DEBUG_HEAP_H

#include "alloc/diagnose/event.h"

/* alignment: 0 for malloc's. Returns NULL and sets errno if there is no memory. */
void *hf_debug_heap_allocate(size_t alignment, size_t size, struct hf_call_site site);
/* What to return for a block that has no footer: itself or, if it is NULL, the block of another
 * try. */
void *hf_debug_heap_unmarked(void *ptr, size_t size, struct hf_call_site site);
/* memalign(3), with glibc's rules about the alignment. */
void *hf_debug_heap_aligned(size_t alignment, size_t size, struct hf_call_site site);
/* posix_memalign(3). */
int hf_debug_heap_posix_memalign(void **out, size_t alignment, size_t size,
                                 struct hf_call_site site);
/* calloc(3). */
void *hf_debug_heap_clear(size_t count, size_t size, struct hf_call_site site);

/* Makes the caller the allocator of a block that another function of ours allocated on its behalf.
 * Returns ptr, which may be NULL or foreign. */
void *hf_debug_heap_claim(void *ptr, size_t size, struct hf_call_site site);

void hf_debug_heap_free(void *ptr, struct hf_stated stated, struct hf_call_site site);

void *hf_debug_heap_resize(void *ptr, size_t size, struct hf_call_site site);

/* The size that the owner of a block may use. */
size_t hf_debug_heap_usable(const void *ptr, struct hf_call_site site);

#endif
