/*
 * Gives jemalloc the region's pages: force-included before every file of jemalloc, it replaces the
 * two calls through which jemalloc gets and returns address space. jemalloc maps only private
 * anonymous memory (pages.c is the single caller of mmap, and sbrk is configured away). Owns
 * nothing; region.c locks.
 */
#ifndef HOMEFREE_JEMALLOC_PAGES_H
#define HOMEFREE_JEMALLOC_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* See region.h. */
void *hf_region_map(void *hint, size_t size, int protection, int flags);
int hf_region_unmap(void *address, size_t size);

#define mmap(address, size, protection, flags, fd, offset) \
    hf_region_map((address), (size), (protection), (flags))
#define munmap(address, size) hf_region_unmap((address), (size))

#endif
