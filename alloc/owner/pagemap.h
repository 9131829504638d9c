/*
 * Which pages other allocators have mapped: a number of one byte for each page of 4 KiB.
 *
 * Reading is two loads, lock-free, at any stage, from signal handlers too. Writing takes no lock
 * either: the kernel gives a page to one mapping at a time, so two writers never mean the same
 * byte, if a number is stored after the pages were mapped and cleared before they are unmapped.
 * That is also what makes it safe in mmap(2)'s stand-in, which may run in a signal handler, and
 * over fork.
 */
#ifndef HOMEFREE_PAGEMAP_H
#define HOMEFREE_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HF_PAGEMAP_UNKNOWN = 0,
    HF_PAGEMAP_SHIFT = 12,
    HF_PAGEMAP_PAGE = 1 << HF_PAGEMAP_SHIFT,
    HF_PAGEMAP_LEAF_SHIFT = 30,
    HF_PAGEMAP_BITS = 48
};

/* A leaf of one byte a page, or (a value below 256) the number of every page there. */
extern uintptr_t hf_pagemap_root[(size_t)1 << (HF_PAGEMAP_BITS - HF_PAGEMAP_LEAF_SHIFT)];

/* The number of the page that holds an address; any value is a valid argument. */
static inline unsigned hf_pagemap_id(const void *ptr)
{
    uintptr_t address = (uintptr_t)ptr;
    if (address >> HF_PAGEMAP_BITS != 0)
        return HF_PAGEMAP_UNKNOWN;
    uintptr_t leaf =
        __atomic_load_n(&hf_pagemap_root[address >> HF_PAGEMAP_LEAF_SHIFT], __ATOMIC_ACQUIRE);
    if (leaf <= UINT8_MAX)
        return (unsigned)leaf;
    size_t page = (address >> HF_PAGEMAP_SHIFT) &
                  (((size_t)1 << (HF_PAGEMAP_LEAF_SHIFT - HF_PAGEMAP_SHIFT)) - 1);
    return __atomic_load_n((const uint8_t *)leaf + page, __ATOMIC_RELAXED);
}

/* Stores a number for every whole page in a range. Where the system has no memory for a leaf the
 * pages stay as they were, unknown in the end; false then. Keeps errno. */
bool hf_pagemap_set(const void *start, size_t size, unsigned id);

/* Whether any page of a range has a number; may say yes where none has, in a hurry. */
bool hf_pagemap_any(const void *start, size_t size);

/* Makes every page of that number unknown again. */
void hf_pagemap_forget(unsigned id);

/* Visits the stretches of pages of that number, in order; a leaf's end ends a stretch. */
void hf_pagemap_visit(unsigned id, void (*visit)(const void *start, size_t size, void *context),
                      void *context);

/* Bytes in pages of that number. */
size_t hf_pagemap_bytes(unsigned id);

#endif
