/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages of the region: the seam to jemalloc, which keeps the books of pages and is not modified.
 * Nothing else of jemalloc is visible to homefree, and nothing of homefree to jemalloc, but the
 * extent hooks in pages.c.
 *
 * All functions: any thread that is inside the fork gate (heap/fork_gate.h), once hf_pages_start()
 * has succeeded; they take jemalloc's locks, and below them the region's. They do not check what
 * they are given: spans/ does that first.
 */
#ifndef HOMEFREE_ALLOC_PAGES_PAGES_H
#define HOMEFREE_ALLOC_PAGES_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called once, while the heap starts, after the region has been reserved and the options read.
 * False if there is no memory. jemalloc itself starts once 2 MiB have been taken. */
bool hf_pages_start(void);

/* At least `size` bytes, more than 16 KiB, at a multiple of `alignment`, a power of two of at least
 * a page; all are zero if `zeroed`. The size that can be used is hf_pages_size(size). NULL if there
 * is no room: what others keep unused goes back first, then hf_pages_purge(). */
void *hf_pages_take(size_t size, size_t alignment, bool zeroed);

/* The same, and tells whether all of it is fresh: zero, and nothing of it in memory. */
void *hf_pages_take_fresh(size_t size, size_t alignment, bool *fresh);

/* What a request for `size` bytes gets: whole pages, in jemalloc's classes, four a doubling. 0 if
 * it is larger than any. */
size_t hf_pages_size(size_t size);

/* Gives back what hf_pages_take() gave: `size` is hf_pages_size() of what was taken. */
void hf_pages_give(void *at, size_t size);

/* Makes pages that were taken larger or smaller where they lie; both sizes are ones that
 * hf_pages_size() tells. False: nothing has changed. */
bool hf_pages_resize(void *at, size_t from, size_t to);

/* Gives all pages that nobody has taken back to the system, and their addresses to the region. */
void hf_pages_purge(void);

/* Purging by time. hf_pages_due() tells one thread once in each window of 20 ms that all who keep
 * something unused should look at it, pages last: hf_pages_settle() purges if much more is
 * unused than was taken lately. The first is cheap: it reads a coarse clock; *late: the time
 * since the window was to end, since when nobody has asked. */
#define HF_PAGES_WINDOW ((uint64_t)20000000)
bool hf_pages_due(uint64_t *late);
void hf_pages_settle(void);
/* Nanoseconds since the last window ended, in which somebody asked; 0 within one. */
uint64_t hf_pages_idle(void);
/* A thread has ended, and nobody may come along later: much that is unused goes back at once. */
void hf_pages_leave(void);

/* Bytes that are taken; that nobody has taken, and that may be resident. No lock, no gate. */
size_t hf_pages_taken(void);
size_t hf_pages_unused(void);

/* The same; bytes of jemalloc's books that are resident, which takes some system calls. */
struct hf_pages_stats {
    uint64_t taken, unused, books;
};
struct hf_pages_stats hf_pages_stats(void);

#endif
