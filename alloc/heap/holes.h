/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets of free address ranges: sorted, merged with their neighbours, and handed out first-fit from
 * the lowest address, or as the caller chooses. The free parts of the region are one (region.c); a
 * satellite may have others. Whoever has a set locks it.
 */
#ifndef HOMEFREE_ALLOC_HEAP_HOLES_H
#define HOMEFREE_ALLOC_HEAP_HOLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hf_hole {
    uintptr_t start;
    size_t size, largest; /* largest: in this subtree */
    struct hf_hole *low, *high;
};

/* All zero: empty. Never moved, and never destroyed. */
struct hf_holes {
    struct hf_hole *root, *spare;
    struct hf_hole *fresh, *fresh_end;                             /* nodes that were never used */
    bool (*is_border)(const struct hf_holes *holes, uintptr_t at); /* whether ranges must not merge
                                                                       there; NULL: nowhere */
};

/* Adds a free range. If the system refuses memory for a new node, the range's address space is
 * lost; nothing else happens. */
void hf_holes_give(struct hf_holes *holes, uintptr_t start, size_t size);

/* Takes `size` bytes at the lowest multiple of `alignment`, a power of two. Returns 0 if nothing
 * fits. */
uintptr_t hf_holes_take(struct hf_holes *holes, size_t size, size_t alignment);

/* Takes `size` bytes at an address; all of them must be free, in one range. */
void hf_holes_take_at(struct hf_holes *holes, uintptr_t at, size_t size);

/* How many bytes from an address on are free, in one range. */
size_t hf_holes_from(const struct hf_holes *holes, uintptr_t at);

/* Where the hole starts that ends at an address, at or behind which none begins; the address itself
 * if there is none. */
uintptr_t hf_holes_last(const struct hf_holes *holes, uintptr_t end);

/* Calls visit for each range of at least `least` bytes in ascending order, until it returns false.
 * visit must not give or take. */
void hf_holes_each(const struct hf_holes *holes, size_t least,
                   bool (*visit)(void *context, uintptr_t start, size_t size), void *context);

#endif
