/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How CPython's mimalloc lays out its memory: the seam to its structures, which CPython exports no
 * function of. mimalloc_segments.c owns what was found out about the running one.
 *
 * Known are mimalloc 2.1's segments as CPython 3.13 and 3.14 have them: 32 MiB, or more for one
 * huge block, at a multiple of 32 MiB; each begins with a header, in which the pages follow.
 * Nothing of it is believed before blocks that CPython hands out lie where it says
 * (hf_mimalloc_segments_prove()). Segments lie in arenas of 1 GiB, which begin with the first one.
 */
#ifndef HOMEFREE_LOADER_HOST_MIMALLOC_SEGMENTS_H
#define HOMEFREE_LOADER_HOST_MIMALLOC_SEGMENTS_H

#include "loader/host/cpython.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_MIMALLOC_SEGMENT ((size_t)32 << 20)

/* Whether the domain RAW is mimalloc's, too, whose blocks any thread may allocate and free. */
bool hf_mimalloc_serves_raw(const struct hf_cpython *cpython);

/* Whether the layout is the known one. A thread that is attached, or any where RAW is mimalloc's,
 * allocates a few blocks, until the answer is yes. */
bool hf_mimalloc_segments_prove(const struct hf_cpython *cpython);

/* The block that holds an address of mimalloc's memory; its size is 0 if there is none, or the
 * layout is unknown. The block may be free. Never faults. Any thread. */
struct hf_mimalloc_block {
    size_t size;
    uintptr_t first;
    bool of_objects; /* in a free-threaded build: it is OBJ's; else MEM's or RAW's */
};
struct hf_mimalloc_block hf_mimalloc_segments_block(const void *ptr);

/* Finds the segments of the process outside the region, and the arenas that they are in: `found` is
 * told of each range. The layout is known. */
void hf_mimalloc_segments_find(void (*found)(const void *start, size_t size));

/* The heaps that have pages in a range of arenas and segments, each once or more often. Nobody may
 * call mimalloc meanwhile. */
void hf_mimalloc_segments_heaps(const void *start, size_t size, void (*visit)(uintptr_t heap));

/* Gives back to the system what nothing uses in such a range: memory between blocks' pages, and
 * segments that are free. Nobody may call mimalloc meanwhile. */
void hf_mimalloc_segments_trim(const void *start, size_t size);

#endif
