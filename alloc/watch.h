/*
 * Watches: what the heap allocates and frees, and whose code asked for it (homefree.h says what a
 * user sees of it). This is the side that records.
 *
 * Constraint: while nobody watches, hf_malloc and hf_free execute no instruction for this. While
 * somebody does, jemalloc keeps every thread out of the fast paths, and the slow ones call what is
 * declared here and in jemalloc/seam.h.
 */
#ifndef HOMEFREE_WATCH_H
#define HOMEFREE_WATCH_H

#include "internal.h"

/* For functions of libhomefree that allocate on behalf of their callers: what was recorded as
 * libhomefree's own becomes the caller's. Evaluates to ptr. */
#define HF_FOR_CALLER(ptr, size) hf_watch_given((ptr), (size), __builtin_return_address(0))
static inline void *hf_watch_given(void *ptr, size_t size, const void *caller)
{
    if (HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED)) && ptr != NULL)
        hf_watch_allocated(ptr, size, caller);
    return ptr;
}

/* A block that the heap does not own is freed through it, or resized. home: code or data in the
 * object that holds the allocator that it goes to; object: that object's path instead, which must
 * live on. size: 0 where it is not known. */
void hf_watch_foreign(const void *ptr, size_t size, const void *home, const char *object,
                      const void *caller, bool freed);

/* For fork, and only in the copy that is the heap. */
void hf_watch_lock(void);
void hf_watch_unlock(void);
void hf_watch_reset(void);

/* For instance.c: what other copies call. */
int hf_watch_begin_here(struct hf_watch **out, size_t room);

#endif
