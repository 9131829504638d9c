/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of foreign pages: a one-byte number for each page of 4 KiB that another allocator has
 * mapped. foreign_pages.c owns it.
 *
 * Reading is two loads, lock-free, at any stage, in signal handlers too. Writing takes no lock
 * either: the kernel gives a page to one mapping at a time, so no two writers touch the same byte,
 * provided that a number is stored after the pages are mapped and cleared before they are unmapped.
 * So writing is also safe in mmap(2)'s stand-in, which may run in a signal handler, and across
 * fork.
 */
#ifndef HOMEFREE_ALLOC_OWNER_FOREIGN_PAGES_H
#define HOMEFREE_ALLOC_OWNER_FOREIGN_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HF_FOREIGN_PAGES_UNKNOWN = 0,
    HF_FOREIGN_PAGES_SHIFT = 12,
    HF_FOREIGN_PAGES_PAGE = 1 << HF_FOREIGN_PAGES_SHIFT,
    HF_FOREIGN_PAGES_LEAF_SHIFT = 28
};

/* Addresses of user space have at most so many bits. On aarch64 the main stack, the libraries and
 * the program lie in its upper half. */
#if defined(__aarch64__)
enum { HF_USER_BITS = 48 };
#else
enum { HF_USER_BITS = 47 };
#endif

/* Each entry is a leaf with one byte per page or, below 256, the number of all its pages: so but
 * for its ends, an arena of 1 GiB, as mimalloc has, takes no leaf. */
extern uintptr_t hf_foreign_pages_root[(size_t)1 << (HF_USER_BITS - HF_FOREIGN_PAGES_LEAF_SHIFT)];

/* The number of the page that holds an address. Any value is valid. */
static inline unsigned hf_foreign_pages_id(const void *ptr)
{
    uintptr_t address = (uintptr_t)ptr;
    if (address >> HF_USER_BITS != 0)
        return HF_FOREIGN_PAGES_UNKNOWN;
    uintptr_t leaf = __atomic_load_n(&hf_foreign_pages_root[address >> HF_FOREIGN_PAGES_LEAF_SHIFT],
                                     __ATOMIC_ACQUIRE);
    if (leaf <= UINT8_MAX)
        return (unsigned)leaf;
    size_t page = (address >> HF_FOREIGN_PAGES_SHIFT) &
                  (((size_t)1 << (HF_FOREIGN_PAGES_LEAF_SHIFT - HF_FOREIGN_PAGES_SHIFT)) - 1);
    return __atomic_load_n((const uint8_t *)leaf + page, __ATOMIC_RELAXED);
}

/* Stores a number for every whole page in a range. False if the system has no memory for a leaf:
 * those pages stay unchanged. Preserves errno. */
bool hf_foreign_pages_set(const void *start, size_t size, unsigned id);

/* Whether any page of a range has a number. Quick; may say yes if none has. */
bool hf_foreign_pages_any(const void *start, size_t size);

/* Resets every page with that number to unknown. */
void hf_foreign_pages_forget(unsigned id);

/* Visits the runs of pages with that number, in ascending order; runs never span leaves. */
void hf_foreign_pages_visit(unsigned id,
                            void (*visit)(const void *start, size_t size, void *context),
                            void *context);

/* Bytes in pages with that number. */
size_t hf_foreign_pages_bytes(unsigned id);

#endif
