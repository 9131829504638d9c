/*
 * The free parts of the region: address ranges, sorted, merged with their neighbours, and handed
 * out first-fit from the lowest address. region.c is the only caller; its lock guards every call.
 */
#ifndef HOMEFREE_HOLES_H
#define HOMEFREE_HOLES_H

#include <stddef.h>
#include <stdint.h>

/* Adds a free range. If the system refuses memory for a new node, the range's address space is
 * lost; nothing else happens. */
void hf_holes_give(uintptr_t start, size_t size);

/* Takes `size` bytes at the lowest multiple of `alignment`, a power of two. Returns 0 if nothing
 * fits. */
uintptr_t hf_holes_take(size_t size, size_t alignment);

/* Where the hole starts that ends at an address, at or behind which none begins; the address itself
 * if there is none. */
uintptr_t hf_holes_last(uintptr_t end);

/* Calls visit for each range in ascending order. visit must not give or take. */
void hf_holes_each(void (*visit)(uintptr_t start, size_t size));

#endif
