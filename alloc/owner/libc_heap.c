/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recognises glibc's heap from its data in memory. Owns hf_libc_heap_break_is_shared; takes no
 * lock. See libc_heap.h.
 *
 * Relies on these properties of glibc (malloc/malloc.c and malloc/arena.c, 2.17 to 2.43, 64 bits):
 * a chunk begins with two words, the previous chunk's size and its own size with three flags (1:
 * the previous chunk is in use, 2: the chunk is a mapping of its own, 4: not of the main arena),
 * and memory follows them; the main arena begins at the initial program break; other arenas live in
 * heaps of 64 MiB, aligned to 64 MiB, which begin with a heap_info and are readable up to the size
 * it states; in a chunk that is a mapping of its own, the first word is the number of bytes before
 * it, and the whole is whole pages; from 2.43 on its size excludes two words at the end.
 */
#include "alloc/owner/libc_heap.h"

#include "alloc/base/dynlink.h"

#include <gnu/libc-version.h>
#include <string.h>
#include <unistd.h>

_Atomic(bool) hf_libc_heap_break_is_shared;

struct chunk {
    uintptr_t before, size;
};

enum { IN_USE_BEFORE = 1, MAPPED = 2, OTHER_ARENA = 4, FLAGS = 7, CHUNK_MIN = 32 };
#define HEAP_MAX ((uintptr_t)64 << 20)

struct heap_info {
    uintptr_t arena, before, size, readable;
};

static uintptr_t size_of(const struct chunk *chunk)
{
    return chunk->size & ~(uintptr_t)FLAGS;
}

static void name(struct hf_owner *owner)
{
    owner->kind = HF_OWNER_LIBC;
    owner->allocator = "glibc";
    owner->object = hf_dynlink_name(hf_dynlink_find((const void *)gnu_get_libc_version));
}

/* ---- the main arena ---- */

/* A part of the heap, read in one go, to walk its chunks with few system calls. */
struct window {
    char bytes[4096];
    uintptr_t start;
    size_t length;
};

/* Reads the header of the chunk at `at`; false if it is not readable. */
static bool read_chunk(struct window *window, const struct hf_mapping *heap, uintptr_t at,
                       struct chunk *out)
{
    if (window->length == 0 || at - window->start > window->length - sizeof *out) {
        uintptr_t left = heap->end - at;
        window->start = at;
        window->length = left < sizeof window->bytes ? left : sizeof window->bytes;
        if (window->length < sizeof *out ||
            !hf_maps_read((const void *)at, window->bytes, window->length))
            return false;
    }
    memcpy(out, window->bytes + (at - window->start), sizeof *out);
    return true;
}

static bool is_chunk(const struct chunk *chunk, uintptr_t at, const struct hf_mapping *heap)
{
    uintptr_t size = size_of(chunk);
    return size >= CHUNK_MIN && size % 16 == 0 && size <= heap->end - at &&
           (chunk->size & (MAPPED | OTHER_ARENA)) == 0;
}

/* Walks the chunks from the start of the heap to the one that holds the address, which is the only
 * way to find a block's start. Gives up where the data does not look like chunks, and after
 * SEARCH_MAX. A block that waits for reuse in one of libc's caches counts as in use. */
static void find_block(uintptr_t address, const struct hf_mapping *heap, struct hf_owner *owner)
{
    enum { SEARCH_MAX = 64 << 20 };
    struct window window;
    struct chunk chunk, next;
    uintptr_t at = heap->start;
    window.length = 0;
    if (address - at > SEARCH_MAX || !read_chunk(&window, heap, at, &chunk) ||
        (chunk.size & IN_USE_BEFORE) == 0)
        return;
    while (is_chunk(&chunk, at, heap)) {
        uintptr_t block = at + sizeof chunk, end = at + size_of(&chunk);
        /* A block extends into the first word of the next chunk. */
        bool holds = address >= block && address < end + sizeof(uintptr_t);
        if (!holds && address < end)
            return; /* in a header */
        if (end >= heap->end || !read_chunk(&window, heap, end, &next))
            return; /* the top chunk */
        if (holds) {
            if ((next.size & IN_USE_BEFORE) == 0)
                return;
            owner->block = (const void *)block;
            owner->block_size = end - at - sizeof(uintptr_t);
            return;
        }
        chunk = next;
        at = end;
    }
}

static bool is_main_arena(uintptr_t address, const struct hf_mapping *at, struct hf_owner *owner)
{
    if (strcmp(at->name, "[heap]") != 0 || hf_libc_heap_break_is_shared)
        return false;
    name(owner);
    find_block(address, at, owner);
    return true;
}

/* ---- other arenas ---- */

static bool read_heap(uintptr_t start, struct heap_info *out)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    return hf_maps_read((const void *)start, out, sizeof *out) && out->size != 0 &&
           (out->size & page) == 0 && (out->readable & page) == 0 && out->size <= out->readable &&
           out->readable <= HEAP_MAX;
}

/* A heap, compared with the kernel's mappings of its addresses. */
struct extent {
    uintptr_t from, readable; /* readable and writable from here up to there; then reserved */
    bool full;                /* nothing is reserved */
    bool fits;
};

/* False once the mappings do not fit, or all have been seen. */
static bool compare(const struct hf_mapping *mapping, void *context)
{
    struct extent *extent = context;
    if (mapping->end <= extent->from)
        return true;
    extent->fits = mapping->start <= extent->from && mapping->anonymous && !mapping->shared;
    if (extent->from == extent->readable) { /* what lies behind */
        extent->fits = extent->fits && !mapping->readable && !mapping->writable;
        return false;
    }
    extent->fits =
        extent->fits && mapping->readable && mapping->writable && mapping->end <= extent->readable;
    extent->from = mapping->end;
    return extent->fits;
}

/* Whether the kernel agrees with what a heap says: readable up to there, and the rest reserved.
 * What a forked child adds to a heap of its parent is a mapping of its own. */
static bool kernel_agrees(uintptr_t start, const struct heap_info *heap,
                          const struct hf_place *place)
{
    const struct hf_mapping *at = &place->at, *after = &place->after;
    struct extent extent = {
        .from = start, .readable = start + heap->readable, .full = heap->readable == HEAP_MAX};
    if (extent.full && at->start <= start && at->end >= start + HEAP_MAX)
        return true;
    if (at->start <= start && at->end == extent.readable && after->start == at->end &&
        after->anonymous && !after->readable && !after->writable)
        return true;
    return hf_maps_each(compare, &extent) == 0 && extent.fits && extent.from == extent.readable;
}

static bool is_other_arena(uintptr_t address, const struct hf_place *place)
{
    uintptr_t start = address & -HEAP_MAX;
    struct heap_info heap, first;
    if (!read_heap(start, &heap) || address - start >= heap.size)
        return false;
    /* The arena lies in its first heap, behind the heap_info (which grew in 2.35). */
    uintptr_t home = heap.arena & -HEAP_MAX, offset = heap.arena - home;
    if (offset < sizeof heap || offset > sizeof heap + 64)
        return false;
    const bool linked = home == start ? heap.before == 0
                                      : heap.before != 0 && read_heap(home, &first) &&
                                            first.arena == heap.arena && first.before == 0;
    return linked && kernel_agrees(start, &heap, place);
}

/* ---- chunks that are mappings ---- */

/* The size of a chunk that is a mapping; 0 if it is none, because it does not fill whole pages. */
static uintptr_t mapped_size(const struct chunk *chunk, uintptr_t page)
{
    uintptr_t size = size_of(chunk);
    if (((chunk->before + size) & page) == 0)
        return size;
    size += sizeof *chunk; /* from glibc 2.43 on, the size excludes the chunk's head */
    return ((chunk->before + size) & page) == 0 ? size : 0;
}

static bool is_mapped_chunk(uintptr_t address, const struct hf_mapping *at, struct hf_owner *owner)
{
    struct chunk chunk;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, start = address - sizeof chunk;
    if (address % 16 != 0 || address - at->start < sizeof chunk ||
        !hf_maps_read((const void *)start, &chunk, sizeof chunk) || (chunk.size & FLAGS) != MAPPED)
        return false;
    uintptr_t size = mapped_size(&chunk, page);
    uintptr_t said = size_of(&chunk);
    uintptr_t usable = said == size ? size - sizeof chunk : said - sizeof(uintptr_t);
    if (size < CHUNK_MIN || chunk.before > start - at->start || size > at->end - start ||
        ((start - chunk.before) & page) != 0)
        return false;
    name(owner);
    owner->block = (const void *)address;
    owner->block_size = usable;
    return true;
}

bool hf_libc_heap_describe(const void *ptr, const struct hf_place *place, struct hf_owner *owner)
{
    const struct hf_mapping *at = &place->at;
    uintptr_t address = (uintptr_t)ptr;
    if (!at->anonymous || at->shared || !at->readable || !at->writable || at->executable)
        return false;
    if (is_main_arena(address, at, owner))
        return true;
    if (strcmp(at->name, "[heap]") == 0)
        return false;
    if (is_other_arena(address, place)) {
        name(owner);
        return true;
    }
    return is_mapped_chunk(address, at, owner);
}

static bool take_heap(const struct hf_mapping *mapping, void *start)
{
    if (strcmp(mapping->name, "[heap]") != 0)
        return true;
    *(uintptr_t *)start = mapping->start;
    return false;
}

/* Where the kernel put the initial program break, which never changes; UINTPTR_MAX if nothing is
 * there yet. Allocators may map memory below it. */
static uintptr_t initial_break(void)
{
    static _Atomic(uintptr_t) known;
    uintptr_t start = known;
    if (start != 0)
        return start;
    (void)hf_maps_each(take_heap, &start);
    if (start == 0)
        return UINTPTR_MAX;
    known = start;
    return start;
}

bool hf_libc_heap_owns(const void *ptr)
{
    struct hf_place place;
    struct hf_owner owner = {.kind = HF_OWNER_LIBC};
    return hf_maps_find(ptr, &place) == 1 && hf_libc_heap_describe(ptr, &place, &owner);
}

bool hf_libc_heap_holds(const void *ptr)
{
    struct chunk chunk, next;
    struct heap_info heap;
    uintptr_t address = (uintptr_t)ptr, start = address - sizeof chunk;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, end = (uintptr_t)sbrk(0);
    if (address % 16 != 0 || !hf_maps_read((const void *)start, &chunk, sizeof chunk))
        return false;
    uintptr_t size = size_of(&chunk);
    if (size < CHUNK_MIN || size % 16 != 0)
        return false;
    if ((chunk.size & MAPPED) != 0)
        return (chunk.size & FLAGS) == MAPPED && ((start - chunk.before) & page) == 0 &&
               mapped_size(&chunk, page) != 0;
    if ((chunk.size & OTHER_ARENA) != 0) {
        uintptr_t home = start & -HEAP_MAX;
        if (!read_heap(home, &heap) || start - home + size > heap.size)
            return false;
    } else if (start >= end || size > end - start || start < initial_break()) {
        return false;
    }
    /* The next chunk's header says that a block is in use, but not always its arena. */
    return hf_maps_read((const void *)(start + size), &next, sizeof next) &&
           (next.size & IN_USE_BEFORE) != 0 && (next.size & MAPPED) == 0;
}

bool hf_libc_heap_denies(const void *ptr)
{
    struct chunk chunk;
    uintptr_t address = (uintptr_t)ptr, start = address - sizeof chunk;
    return address % 16 != 0 || !hf_maps_read((const void *)start, &chunk, sizeof chunk) ||
           size_of(&chunk) < CHUNK_MIN || size_of(&chunk) > -address;
}
