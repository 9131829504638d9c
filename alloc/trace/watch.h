/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watches: what the heap allocates and frees, and which object's code asked for it.
 * homefree/watch.h describes the public side; this is the recording side. watch.c owns the list of
 * open watches, watch_table.h the lock; any thread may record, at any stage.
 *
 * Constraint: hf_malloc and hf_free execute no instruction for this unless a watch is open. While
 * one is, the front end keeps every thread out of the fast paths, and the slow paths call the
 * functions declared here and in heap/front_end.h.
 */
#ifndef HOMEFREE_ALLOC_TRACE_WATCH_H
#define HOMEFREE_ALLOC_TRACE_WATCH_H

#include "alloc/heap/internal.h"

/* For functions of libhomefree that allocate on behalf of their callers: attributes the block,
 * recorded as libhomefree's own, to the caller. Evaluates to ptr. */
#define HF_FOR_CALLER(ptr, size) hf_watch_given((ptr), (size), __builtin_return_address(0))
static inline void *hf_watch_given(void *ptr, size_t size, const void *caller)
{
    if (HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED)) && ptr != NULL)
        hf_watch_allocated(ptr, size, caller);
    return ptr;
}

/* Records that a foreign block is freed or resized through homefree. object: path of the object
 * that holds the block's allocator, a string that must never be freed; NULL for the process's own
 * free(). size: 0 if unknown. */
void hf_watch_freed_foreign(const void *ptr, size_t size, const char *object, const void *caller,
                            bool freed);

/* A call that is made on an object's behalf. */
struct hf_watch_call {
    const void *caller; /* an address in that object; overrides the return address */
    const void *back; /* the call's own return address, for code that stands in between; or NULL */
};

/* The one that this thread makes now, or NULL. Its maker sets it for the duration of the call. One
 * word, because static TLS is scarce where a library is loaded late. */
extern __thread const struct hf_watch_call *hf_watch_call
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* loader/ registers the function to call, without a lock, after the first watch has
 * been opened or the last one ended. */
void hf_watch_offer_thunks(void (*changed)(void));

/* The process's own free(), if it is not libc's. */
void hf_watch_set_home(const void *free_function);

/* Keeps every call on the slow paths and `hf_watching` set, until it has been called as often with
 * false; for fail.c. */
void hf_watch_hold(bool hold);

/* Whether a watch is open; `hf_watching` may be set without one. */
bool hf_watch_is_open(void);

/* Visits the memory of each open watch. */
void hf_watch_each_mapping(void (*visit)(const void *start, size_t size));

/* hf_watch_begin() without forwarding, in the copy that is the heap. */
int hf_watch_begin_here(struct hf_watch **out, size_t capacity);

#endif
