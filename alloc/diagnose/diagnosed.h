/*
 * The diagnosed heap: allocates and frees like the plain one, gives each block a trailer, counts
 * who allocates and who frees, and finds faults. process.c and diagnosed_family.c are its entry
 * points.
 *
 * A fault that would damage the heap is recorded and not carried out: a block that is freed twice
 * stays freed, and a pointer that is no block's is left alone.
 *
 * Any thread, at any stage. Owns nothing; calls the plain heap (plain.h) and takes no lock of its
 * own. errno survives a free.
 */
#ifndef HOMEFREE_DIAGNOSED_H
#define HOMEFREE_DIAGNOSED_H

#include "alloc/diagnose/event.h"

/* alignment: 0 for malloc's. Returns NULL and sets errno if there is no memory. */
void *hf_diagnosed_allocate(size_t alignment, size_t size, struct hf_call_site site);
/* What to return for a block that has no trailer: itself or, if it is NULL, the block of another
 * try. */
void *hf_diagnosed_unmarked(void *ptr, size_t size, struct hf_call_site site);
/* memalign(3), with glibc's rules about the alignment. */
void *hf_diagnosed_aligned(size_t alignment, size_t size, struct hf_call_site site);
/* posix_memalign(3). */
int hf_diagnosed_posix_memalign(void **out, size_t alignment, size_t size,
                                struct hf_call_site site);
/* calloc(3). */
void *hf_diagnosed_clear(size_t count, size_t size, struct hf_call_site site);

/* Makes the caller the allocator of a block that another function of ours allocated on its behalf.
 * Returns ptr, which may be NULL or foreign. */
void *hf_diagnosed_claim(void *ptr, size_t size, struct hf_call_site site);

void hf_diagnosed_free(void *ptr, struct hf_stated stated, struct hf_call_site site);

void *hf_diagnosed_resize(void *ptr, size_t size, struct hf_call_site site);

/* The size that the owner of a block may use. */
size_t hf_diagnosed_usable(const void *ptr, struct hf_call_site site);

#endif
