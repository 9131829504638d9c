/*
 * Watches: what the heap allocates and frees, and whose code asked for it. homefree/watch.h
 * says what a user sees of it. This is the side that records.
 *
 * Constraint: while nobody watches, hf_malloc and hf_free execute no instruction for this. While
 * somebody does, jemalloc keeps every thread out of the fast paths, and the slow ones call what is
 * declared here and in jemalloc/seam.h.
 */
#ifndef HOMEFREE_WATCH_H
#define HOMEFREE_WATCH_H

#include "alloc/heap/internal.h"

/* For functions of libhomefree that allocate on behalf of their callers: what was recorded as
 * libhomefree's own becomes the caller's. Evaluates to ptr. */
#define HF_FOR_CALLER(ptr, size) hf_watch_given((ptr), (size), __builtin_return_address(0))
static inline void *hf_watch_given(void *ptr, size_t size, const void *caller)
{
    if (HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED)) && ptr != NULL)
        hf_watch_allocated(ptr, size, caller);
    return ptr;
}

/* A block that the heap does not own is freed through it, or resized. object: path of what holds
 * the allocator that it goes to, which must live on; NULL for the process's own free(). size: 0
 * where it is not known. */
void hf_watch_freed_foreign(const void *ptr, size_t size, const char *object, const void *caller,
                            bool freed);

/* Whose code it is, where that is known better than by a return address: an address in its object.
 * Set for the time of a call, by who calls on its behalf. */
extern __thread const void *hf_watch_caller
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* loader/ offers what is to be called after `hf_watching` has changed, without a lock. */
void hf_watch_offer_marks(void (*changed)(void));

/* The process's own free(), when it is not libc's. */
void hf_watch_set_home(const void *free_function);

/* hf_watch_begin() in the copy that is the heap. */
int hf_watch_begin_here(struct hf_watch **out, size_t room);

#endif
