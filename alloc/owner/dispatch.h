/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends a foreign pointer home: finds the owner (foreign.h) and calls it, checks pointers without
 * an owner first (static_data.h), and reports to open watches. A copy that forwards lets the heap's
 * copy look for the owner first. Any thread, at any stage; takes no
 * lock.
 */
#ifndef HOMEFREE_ALLOC_OWNER_DISPATCH_H
#define HOMEFREE_ALLOC_OWNER_DISPATCH_H

#include "alloc/heap/instance.h"
#include "alloc/owner/foreign.h"

/* A stage of libhomefree's start (start/start.h). Before it, ownerless pointers go to libc
 * unchecked. */
void hf_dispatch_start(void);

/* Call a foreign allocator for its block. If it has no function for the call, the process ends with
 * a line that names `caller`, or with HOMEFREE_CONF=unknown_free:leak leaks the block. realloc uses
 * the owner's realloc, or else moves the block to libc. */
void hf_foreign_call_free(const struct hf_foreign_allocator *allocator, void *ptr,
                          const void *caller);
/* The same by the operator of a form, if the allocator has one. */
void hf_foreign_call_delete(const struct hf_foreign_allocator *allocator, enum hf_delete_form form,
                            void *ptr, size_t alignment, const void *caller);
void *hf_foreign_call_realloc(const struct hf_foreign_allocator *allocator, void *ptr, size_t size,
                              const void *caller);
/* Asks for unused memory to be given back to the system. False: there is no function for that. */
bool hf_foreign_call_trim(const struct hf_foreign_allocator *allocator);
/* Bytes in its live blocks. False: it does not tell. */
bool hf_foreign_call_live(const struct hf_foreign_allocator *allocator, uint64_t *live);
size_t hf_foreign_call_usable_size(const struct hf_foreign_allocator *allocator, const void *ptr,
                                   const void *caller);

/* hf_delete_foreign() for code that calls on another object's behalf. */
bool hf_delete_foreign_for(void *ptr, enum hf_delete_form form, size_t alignment,
                           const void *caller);

/* What this copy, if it is the heap, does for others. */
extern const struct hf_foreign_functions hf_dispatch_functions
    __attribute__((visibility("hidden")));

/* For a foreign pointer; ptr is not NULL. */
void *hf_realloc_foreign(void *ptr, size_t size, const void *caller);
size_t hf_usable_size_foreign(const void *ptr);

#endif
