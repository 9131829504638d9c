/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entry points of the malloc family that are not exported. Owns nothing; any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_START_FAMILY_H
#define HOMEFREE_ALLOC_START_FAMILY_H

#include "alloc/base/libc_functions.h"
#include "alloc/heap/internal.h"

/* hf_realloc() for code that calls on another object's behalf. caller: an address in that
 * object. */
void *hf_realloc_for(void *ptr, size_t size, const void *caller);

/* Whether reallocarray(ptr) makes a new block that the object in front of libhomefree serves:
 * libc's calls the realloc() of the process. */
static inline bool hf_array_is_served_in_front(const void *ptr)
{
    if (ptr != NULL)
        return false;
    hf_heap_start(); /* which finds out who serves the process */
    return hf_libc_is_replaced();
}

/* hf_free() for a block of the heap that was passed to another allocator's function of that name
 * (shim/functions.def). */
void hf_free_named(void *ptr, const char *function);

/* With checks:full, checks the size and alignment that the caller of a free states against the
 * block. */
void hf_check_freed(const void *ptr, const size_t *alignment, const size_t *size,
                    const void *caller);

#endif
