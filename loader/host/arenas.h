/*
 * pymalloc's arenas outside the region: those it had before install(), and those it got when the
 * region could not lend any. Their blocks are pymalloc's as much as those of lent arenas.
 */
#ifndef HOMEFREE_ARENAS_H
#define HOMEFREE_ARENAS_H

#include "alloc/owner/foreign.h"
#include "loader/host/cpython.h"

#include <stdint.h>

/* pymalloc's pool_header; the layout has been this one since Python 2.3. */
struct hf_py_pool {
    uint32_t count; /* blocks in use; 0: nobody has this pool, and the rest means nothing */
    uint32_t padding;
    uintptr_t *free; /* first free block, which holds the address of the next one */
    struct hf_py_pool *next, *previous;
    uint32_t arena, size_class;
    uint32_t next_offset; /* blocks from here on were never handed out */
    uint32_t last_offset; /* the last block's */
};
/* An arena's size tells how large its pools are. */
static inline size_t hf_py_pool_size(size_t arena_size)
{
    return arena_size == (size_t)1 << 20 ? 16384 : 4096;
}

/*
 * Finds the arenas that the pymalloc of the calling thread's interpreter has now. The thread is
 * attached; the caller holds the host's lock. Costs a look at CPython's data, once a process.
 * Result: the size of one in bytes; 0 where there is no pymalloc, or not one that is known.
 */
size_t hf_arenas_learn(const struct hf_cpython *cpython);

/* Makes the pages of such arenas a foreign allocator's from now on. The caller holds the host's
 * lock. Result: false when there is no room for another foreign allocator; no arena is known then.
 */
bool hf_arenas_publish(const struct hf_foreign_allocator *pymalloc);

/* An arena outside the region comes, or goes. The thread is attached to some interpreter. */
void hf_arenas_add(const void *arena, size_t size);
void hf_arenas_remove(const void *arena, size_t size);

#endif
