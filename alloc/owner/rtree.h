/*
 * Another jemalloc's rtree, read in place: which addresses it owns, without calling it.
 *
 * Asking by mallctl("arenas.lookup") is no way to do it inside somebody's free(): it takes a lock,
 * gives a thread that is about to end data that is never cleaned up (and jemalloc's destructor then
 * crashes), and follows a null pointer where the tree has no leaf.
 *
 * The tree (rtree.h of jemalloc 5.0 to 5.3) maps a page's number to what lies there: one or two
 * levels of pointers, never given back, and leaves of one or two words. The root is the end of
 * arena_emap_global (5.3) or extents_rtree (before). Which shape it has is told by its size;
 * whoever uses one checks it against blocks that the allocator gives out.
 *
 * Reading needs no lock, any thread, also in a signal handler.
 */
#ifndef HOMEFREE_RTREE_H
#define HOMEFREE_RTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_rtree {
    const uintptr_t *root;
    uint8_t levels, bits, page_shift;
    bool compact; /* a leaf's word has other things beside the pointer */
};

/* From the symbol's address and size. False where no known shape has that size. */
bool hf_rtree_from(const void *symbol, size_t size, struct hf_rtree *out);

/*
 * Finds the tree of a jemalloc whose symbols are gone, in its object's variables ([start, start +
 * size)), by a block that it has given out: the first place from `*cursor` on (0 at first) at which
 * one of the known shapes leads from that block's page to a leaf that describes it. Whoever takes
 * it checks it with other blocks. False where there is none left. Memory is read by system calls
 * that fail where there is none.
 */
bool hf_rtree_search(const void *start, size_t size, const void *block, size_t *cursor,
                     struct hf_rtree *out);

/* As hf_rtree_holds(), for a tree that may be none: never faults. */
bool hf_rtree_proves(const struct hf_rtree *tree, const void *ptr);
/* The same, and what the leaf leads to is a stretch that holds the address. */
bool hf_rtree_describes(const struct hf_rtree *tree, const void *ptr);

/* Whether the page that holds an address is known to the allocator as the first or the last one of
 * a stretch, or as one of small blocks: so for every block's first byte. */
bool hf_rtree_holds(const struct hf_rtree *tree, const void *ptr);

#endif
