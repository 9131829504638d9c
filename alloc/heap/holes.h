/*
 * The parts of the region that nobody has: address ranges, sorted, merged where they meet, and
 * handed out again from the lowest that fits. Owned by region.c, whose lock guards every call.
 */
#ifndef HOMEFREE_HOLES_H
#define HOMEFREE_HOLES_H

#include <stddef.h>
#include <stdint.h>

/* Adds a range that nobody has. Where the system refuses memory for one more entry, the range is
 * lost as address space: nothing else happens. */
void hf_holes_give(uintptr_t start, size_t size);

/* Takes `size` bytes at a multiple of `alignment`, a power of two: the lowest address there is.
 * Result: 0 where nothing fits. */
uintptr_t hf_holes_take(size_t size, size_t alignment);

/* Calls visit for each range, from the lowest on. It must not give or take. */
void hf_holes_each(void (*visit)(uintptr_t start, size_t size));

#endif
