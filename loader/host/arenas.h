/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pymalloc's arenas outside the region: those that existed before install(), and those that
 * pymalloc got from elsewhere because the region had no room. Their blocks belong to pymalloc, as
 * blocks of arenas lent by the region do, and are freed the same way.
 *
 * Shared by: pymalloc.c alone. Locks and permitted callers are given at each function.
 */
#ifndef HOMEFREE_LOADER_HOST_ARENAS_H
#define HOMEFREE_LOADER_HOST_ARENAS_H

#include "alloc/owner/foreign.h"
#include "loader/host/cpython.h"

#include <stdint.h>

/* pymalloc's pool_header. Its layout has not changed since Python 2.3. */
struct hf_py_pool {
    uint32_t count; /* blocks in use; 0 means that the pool is unused and its other members are
                       invalid */
    uint32_t padding;
    uintptr_t *free; /* first free block, which holds the address of the next one */
    struct hf_py_pool *next, *previous;
    uint32_t arena, size_class;
    uint32_t next_offset; /* the blocks from this offset on have never been handed out */
    uint32_t last_offset; /* offset of the last block */
};
/* The size of an arena determines the size of its pools. */
static inline size_t hf_py_pool_size(size_t arena_size)
{
    return arena_size == (size_t)1 << 20 ? 16384 : 4096;
}

/*
 * Finds the arenas that the pymalloc of the calling thread's interpreter has at this moment and
 * records those outside the region. The thread must be attached, and the caller holds the host's
 * lock. Costs a search of CPython's data. is_main: they are the main interpreter's, and are
 * recorded as such (arena_owners.h).
 *
 * Returns the size of one arena in bytes, or 0 if there is no pymalloc or an unknown one.
 */
size_t hf_arenas_learn(const struct hf_cpython *cpython, bool is_main);

/* Registers pymalloc as a foreign allocator, so that the pages of such arenas can be attributed to
 * it. The caller holds the host's lock. Returns false if the table of foreign allocators is full;
 * no arena is recorded then. */
bool hf_arenas_publish(const struct hf_foreign_allocator *pymalloc);

/* Record an arena outside the region that was allocated, or is about to be freed. The thread is
 * attached to some interpreter. The first one returns whether pymalloc is registered. */
bool hf_arenas_add(const void *arena, size_t size);
void hf_arenas_remove(const void *arena, size_t size);

#endif
