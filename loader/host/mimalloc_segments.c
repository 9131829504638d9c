/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns what is known about the layout, two words that are written once; atomic, no lock. See
 * mimalloc_segments.h.
 *
 * Each segment's header has its address xor a random number that all share, the cookie. So one
 * block is enough to know every segment of the process, and no other memory is taken for one.
 */
#include "loader/host/mimalloc_segments.h"

#include "alloc/base/maps.h"
#include "alloc/heap/internal.h"
#include "loader/host/domains.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SLICE       ((size_t)64 << 10) /* pages consist of slices */
#define SLICES_MOST (HF_MIMALLOC_SEGMENT / SLICE)
#define HUGE_BLOCK  ((uint32_t)1 << 31) /* stands for: all that the page has */
#define ARENA       ((size_t)1 << 30)
/* The first arenas have that size, each eight later ones twice as much. */
#define ARENAS_ALIKE 8

/* mi_memkind_t */
enum { MEMORY_OF_SYSTEM = 3, MEMORY_OF_ARENA = 6 };

/* mi_segment_t, before its pages */
struct segment {
    uint64_t arena_index; /* of MEMORY_OF_ARENA: which segment of the arena it is */
    int32_t arena;        /* the arena's number, from 1 on */
    uint8_t other[4];
    uint8_t is_pinned, initially_committed, initially_zero;
    uint32_t memory;
    uint64_t flags;
    uint64_t size;
    uint64_t purge[17]; /* when, and two masks */
    uint64_t abandoned_next, next, abandoned, abandoned_visits;
    uint64_t used; /* pages in use */
    uint64_t cookie;
    uint64_t slices, info_slices;
    uint32_t kind; /* KIND_NORMAL: several pages */
    uint64_t entries;
    uint64_t thread; /* 0: the segment is free, or its thread has ended */
};
enum { KIND_NORMAL = 0 };

/* mi_page_t, what is the same in all builds: one for each slice; only a page's first one counts. */
struct page {
    uint32_t slices; /* in the page, or in a run of free ones */
    uint32_t offset; /* bytes from the page's first entry on */
    uint8_t flags;   /* from bit 3 on, 4 bits: the kind of heap that it belongs to */
    uint8_t debug_offset;
    uint16_t capacity, reserved;
    uint8_t is_full_or_aligned, retiring;
    uint64_t free;
    uint32_t used;
    uint32_t block_size; /* 0: free slices */
    uint64_t local_free, thread_free;
    uint64_t heap; /* with two random keys in front in a debug build */
};

/* Bytes of an entry: with a GIL, free-threaded, and the latter in a debug build. */
static const size_t page_sizes[] = {80, 96, 112};

static atomic_size_t page_size; /* 0: the layout is not known */
static _Atomic(uint64_t) cookie;

static uintptr_t segment_of(const void *ptr)
{
    return (uintptr_t)ptr & -HF_MIMALLOC_SEGMENT;
}

static bool read_segment(uintptr_t at, uint64_t with_cookie, struct segment *out)
{
    return hf_maps_read((const void *)at, out, sizeof *out) && (out->cookie ^ at) == with_cookie &&
           out->size == out->slices * SLICE && out->entries <= SLICES_MOST &&
           out->info_slices < out->entries;
}

/* ---- blocks ---- */

static bool read_page(uintptr_t segment, size_t index, size_t entry, struct page *out)
{
    return hf_maps_read((const void *)(segment + sizeof(struct segment) + index * entry), out,
                        sizeof *out);
}

/* Small blocks do not begin with the page. */
static size_t start_offset(size_t block_size)
{
    return block_size <= 64 ? 3 * block_size : block_size <= 512 ? block_size : 0;
}

/* 0: of RAW and MEM; others: of objects */
static unsigned heap_kind(const struct page *page)
{
    return page->flags >> 3 & 0xf;
}

static struct hf_mimalloc_block block_at(uintptr_t at, size_t entry, uint64_t with_cookie)
{
    const struct hf_mimalloc_block none = {.size = 0};
    struct segment segment;
    struct page page;
    const uintptr_t start = at & -HF_MIMALLOC_SEGMENT;
    size_t index = (at - start) / SLICE;
    if (!read_segment(start, with_cookie, &segment) || index >= segment.entries ||
        index < segment.info_slices || !read_page(start, index, entry, &page))
        return none;
    if (page.offset != 0) {
        if (page.offset % entry != 0 || page.offset / entry > index - segment.info_slices)
            return none;
        index -= page.offset / entry;
        if (!read_page(start, index, entry, &page) || page.offset != 0)
            return none;
    }
    size_t size = page.block_size;
    if (size < sizeof(void *) || page.slices == 0)
        return none;
    if (size >= HUGE_BLOCK)
        size = page.slices * SLICE;
    const uintptr_t begin = start + index * SLICE + start_offset(size);
    if (at < begin || (at - begin) / size >= page.capacity)
        return none;
    return (struct hf_mimalloc_block){size, at - (at - begin) % size, heap_kind(&page) != 0};
}

struct hf_mimalloc_block hf_mimalloc_segments_block(const void *ptr)
{
    const size_t entry = atomic_load_explicit(&page_size, memory_order_acquire);
    return entry != 0 ? block_at((uintptr_t)ptr, entry, cookie)
                      : (struct hf_mimalloc_block){.size = 0};
}

/* ---- proof ---- */

bool hf_mimalloc_serves_raw(const struct hf_cpython *cpython)
{
    return cpython->free_threaded && cpython->version >= 0x30f;
}

/* The domain's own allocator, below homefree's hook if there is one. */
static void find_allocator(const struct hf_cpython *cpython, enum hf_py_domain domain,
                           struct hf_py_allocator *out)
{
    const struct hf_py_allocator *previous = hf_domain_previous(domain);
    if (previous != NULL)
        *out = *previous;
    else
        (void)hf_cpython_bottom(cpython, domain, out, NULL);
}

/* Whether every block that the thread may allocate from CPython lies where an entry of that size
 * says. */
static bool fits(const struct hf_cpython *cpython, size_t entry, uint64_t *with_cookie)
{
    static const size_t sizes[] = {1, 24, 100, 480, 1000, 5000, 60000, 500000};
    const bool attached = hf_cpython_attached(cpython);
    bool right = true;
    for (size_t i = 0; right && i < 2 * (sizeof sizes / sizeof sizes[0]); i++) {
        const enum hf_py_domain domain = !attached    ? HF_PY_RAW
                                         : i % 2 == 0 ? HF_PY_MEM
                                                      : HF_PY_OBJECT;
        const size_t wanted = sizes[i / 2];
        struct hf_py_allocator bottom;
        struct segment segment;
        find_allocator(cpython, domain, &bottom);
        void *block = bottom.malloc(bottom.ctx, wanted);
        if (block == NULL)
            return false;
        if (i == 0 && hf_maps_read((const void *)segment_of(block), &segment, sizeof segment))
            *with_cookie = segment.cookie ^ segment_of(block);
        const struct hf_mimalloc_block seen = block_at((uintptr_t)block, entry, *with_cookie);
        right = seen.size >= wanted && seen.size <= wanted * 2 + SLICE &&
                seen.first == (uintptr_t)block &&
                seen.of_objects == (cpython->free_threaded && domain == HF_PY_OBJECT);
        bottom.free(bottom.ctx, block);
    }
    return right;
}

bool hf_mimalloc_segments_prove(const struct hf_cpython *cpython)
{
    uint64_t found = 0;
    if (page_size == 0 && !hf_mimalloc_serves_raw(cpython) && !hf_cpython_attached(cpython))
        return false;
    for (size_t i = 0; page_size == 0 && i < sizeof page_sizes / sizeof page_sizes[0]; i++)
        if (fits(cpython, page_sizes[i], &found)) {
            cookie = found;
            atomic_store_explicit(&page_size, page_sizes[i], memory_order_release);
        }
    return page_size != 0;
}

/* ---- segments that mimalloc had before ---- */

/* How much of a range is private anonymous memory, from its start on. */
struct covered {
    uintptr_t at, end;
};

static bool is_plain(const struct hf_mapping *mapping)
{
    return mapping->anonymous && !mapping->shared && !mapping->executable;
}

static bool cover(const struct hf_mapping *mapping, void *context)
{
    struct covered *covered = context;
    if (mapping->end <= covered->at)
        return true;
    if (mapping->start > covered->at || !is_plain(mapping))
        return false;
    covered->at = mapping->end < covered->end ? mapping->end : covered->end;
    return covered->at < covered->end;
}

/* Whether arenas have another size: then only segments themselves are known. */
static bool arenas_differ(void)
{
    return getenv("MIMALLOC_ARENA_RESERVE") != NULL || getenv("mimalloc_arena_reserve") != NULL;
}

struct finding {
    void (*found)(const void *start, size_t size);
    uintptr_t arena, arena_end; /* found last */
};

static void find_arena(struct finding *finding, uintptr_t at, const struct segment *segment)
{
    const unsigned before = (unsigned)(segment->arena > 0 ? segment->arena - 1 : 0);
    const uintptr_t start = at - segment->arena_index * HF_MIMALLOC_SEGMENT;
    const unsigned doubled = before / ARENAS_ALIKE;
    if (arenas_differ() || doubled > 16 || start > at) {
        finding->found((const void *)at, segment->size);
        return;
    }
    struct covered covered = {start, start + (ARENA << doubled)};
    (void)hf_maps_each(cover, &covered);
    finding->arena = start;
    finding->arena_end = covered.at;
    finding->found((const void *)start, covered.at - start);
}

static bool find_in(const struct hf_mapping *mapping, void *context)
{
    struct finding *finding = context;
    const size_t most = (size_t)64 << 30; /* a sanitizer's shadow is larger */
    if (!is_plain(mapping) || mapping->end - mapping->start > most)
        return true;
    uintptr_t at = (mapping->start + HF_MIMALLOC_SEGMENT - 1) & -HF_MIMALLOC_SEGMENT;
    for (struct segment segment; at < mapping->end; at += HF_MIMALLOC_SEGMENT) {
        if (at - finding->arena < finding->arena_end - finding->arena || hf_owned((void *)at) ||
            !read_segment(at, cookie, &segment))
            continue;
        if (segment.memory == MEMORY_OF_ARENA)
            find_arena(finding, at, &segment);
        else if (segment.memory == MEMORY_OF_SYSTEM)
            finding->found((const void *)at, segment.size);
    }
    return true;
}

void hf_mimalloc_segments_find(void (*found)(const void *start, size_t size))
{
    struct finding finding = {.found = found};
    (void)hf_maps_each(find_in, &finding);
}

/* ---- with the world stopped ---- */

/* Calls `each` for the runs of slices in a segment that are a page or free. */
static void each_run(uintptr_t at, const struct segment *segment,
                     void (*each)(uintptr_t start, const struct page *run, void *context),
                     void *context)
{
    struct page run;
    for (size_t i = segment->info_slices; i < segment->entries; i += run.slices) {
        if (!read_page(at, i, page_size, &run) || run.slices == 0)
            return;
        each(at + i * SLICE, &run, context);
    }
}

/*
 * Calls `each` for each segment in a range with what its header says; NULL: no live one is there. A
 * live segment's header is where it begins; a free one's may still be there, or what lay in a huge
 * block once. So an arena is read from its first segment on, and whatever lies in no live one is
 * free. Where arenas are not known as a whole, only live segments count.
 */
static void each_segment(const void *start, size_t size,
                         void (*each)(uintptr_t at, const struct segment *segment, void *context),
                         void *context)
{
    const uintptr_t end = (uintptr_t)start + size;
    const bool whole = !arenas_differ() && segment_of(start) == (uintptr_t)start;
    uintptr_t at = ((uintptr_t)start + HF_MIMALLOC_SEGMENT - 1) & -HF_MIMALLOC_SEGMENT;
    struct segment segment;
    for (; at < end && end - at >= HF_MIMALLOC_SEGMENT; at += HF_MIMALLOC_SEGMENT) {
        const bool live =
            read_segment(at, cookie, &segment) && (segment.thread != 0 || segment.used != 0);
        if (live || whole)
            each(at, live ? &segment : NULL, context);
        if (live)
            at += (segment.size - 1) & -HF_MIMALLOC_SEGMENT;
    }
}

/* The word of a heap that has its thread: behind 129 pages for small sizes and 75 queues. */
#define HEAP_THREAD 2848

struct heaps {
    void (*visit)(uintptr_t heap);
    uint64_t thread;
};

static void visit_heap(uintptr_t start, const struct page *run, void *context)
{
    const struct heaps *all = context;
    uint64_t thread = 0;
    (void)start;
    if (run->block_size != 0 && run->heap != 0 &&
        hf_maps_read((const void *)(run->heap + HEAP_THREAD), &thread, sizeof thread) &&
        thread == all->thread)
        all->visit(run->heap);
}

static void visit_heaps(uintptr_t at, const struct segment *segment, void *context)
{
    struct heaps all = {*(void (**)(uintptr_t))context, 0};
    if (segment == NULL || segment->thread == 0)
        return;
    all.thread = segment->thread;
    each_run(at, segment, visit_heap, &all);
}

void hf_mimalloc_segments_heaps(const void *start, size_t size, void (*visit)(uintptr_t heap))
{
    each_segment(start, size, visit_heaps, &visit);
}

/* mimalloc relies on nothing that it finds in free slices, except that they may not be zero. */
static void give_back(uintptr_t start, const struct page *run, void *context)
{
    (void)context;
    if (run->block_size == 0)
        (void)madvise((void *)start, run->slices * SLICE, MADV_DONTNEED);
}

static void trim(uintptr_t at, const struct segment *segment, void *context)
{
    if (segment == NULL)
        (void)madvise((void *)at, HF_MIMALLOC_SEGMENT, MADV_DONTNEED);
    else if (segment->kind == KIND_NORMAL)
        each_run(at, segment, give_back, context);
}

void hf_mimalloc_segments_trim(const void *start, size_t size)
{
    each_segment(start, size, trim, NULL);
}
