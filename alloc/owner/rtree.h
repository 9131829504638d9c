/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads another jemalloc's rtree in place: which addresses it owns, without calling it.
 *
 * mallctl("arenas.lookup") is unusable inside another allocator's free(): it takes a lock, gives an
 * ending thread data that is never cleaned up (jemalloc's destructor then crashes), and follows a
 * null pointer if the tree has no leaf.
 *
 * The tree (rtree.h of jemalloc 5.0 to 5.3) maps a page number to the page's contents: one or two
 * levels of pointers, never freed, and leaves of one or two words per page. The root is the end of
 * arena_emap_global (5.3) or extents_rtree (before). Its size tells its shape; the caller must
 * check a shape against blocks that the allocator returns.
 *
 * Nothing is owned here. Reading needs no lock; any thread, signal handlers included.
 */
#ifndef HOMEFREE_ALLOC_OWNER_RTREE_H
#define HOMEFREE_ALLOC_OWNER_RTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_rtree {
    const uintptr_t *root;
    uint8_t levels, bits, page_shift;
    bool compact; /* a leaf's word holds other data beside the pointer */
};

/* Derives the tree from the symbol's address and size. False if no known shape has that size. */
bool hf_rtree_from(const void *symbol, size_t size, struct hf_rtree *out);

/*
 * Finds the tree of a jemalloc without symbols among its object's variables ([start, start +
 * size)), using a block that it allocated: stops at the first place from `*cursor` on (initially 0)
 * at which a known shape leads from the block's page to a leaf that describes it. The caller must
 * check the result with other blocks. False if there is no further candidate. Never faults.
 */
bool hf_rtree_search(const void *start, size_t size, const void *block, size_t *cursor,
                     struct hf_rtree *out);

/* hf_rtree_holds() for a tree that may not be one: never faults. */
bool hf_rtree_proves(const struct hf_rtree *tree, const void *ptr);
/* The same, and the leaf must point to an extent that holds the address. */
bool hf_rtree_describes(const struct hf_rtree *tree, const void *ptr);

/* Whether the allocator's tree has an entry for the page that holds an address: the first or last
 * page of an extent, or any page of a slab. True for every block's first byte. */
bool hf_rtree_holds(const struct hf_rtree *tree, const void *ptr);

#endif
