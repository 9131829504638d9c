/* SPDX-License-Identifier: 0BSD */
/*
 * Makes an rpmalloc 1.4 or 2 a member of the registry: compile this file with rpmalloc's header,
 * and link it into whatever holds that rpmalloc. It gives rpmalloc its memory, so it must be first
 * to initialise it: its constructor does, before others of the same object.
 *
 * rpmalloc finds the header of a block's page by the block's address, and reads it: no function of
 * its own can be asked about a foreign pointer. So its mappings are recorded here, a bit for each
 * 64 KiB of address space, in tables that are never given back; reading takes no lock.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include <errno.h>
#include <rpmalloc/rpmalloc.h>
#include <sys/mman.h>

#include "allocator_registry.h"

enum { GRANULE_BITS = 16, TABLE_BITS = 18, ROOT_BITS = 47 - GRANULE_BITS - TABLE_BITS };
#define GRANULE ((size_t)1 << GRANULE_BITS)

struct table {
    unsigned char bits[((size_t)1 << TABLE_BITS) / 8];
};
static struct table *tables[(size_t)1 << ROOT_BITS];

/* ---- the record ---- */

static struct table *table_at(uintptr_t granule, int make)
{
    struct table **place = &tables[granule >> TABLE_BITS], *none = NULL;
    struct table *table = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (table != NULL || !make)
        return table;
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return NULL;
    if (__atomic_compare_exchange_n(place, &none, table, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return table;
    munmap(table, sizeof *table); /* another thread was first */
    return none;
}

/* Result: whether there was memory for it; taking back never fails. */
static int record(const void *start, size_t size, int is_ours)
{
    const uintptr_t first = (uintptr_t)start >> GRANULE_BITS, count = size >> GRANULE_BITS;
    for (uintptr_t i = first; i < first + count; i++) {
        struct table *table = table_at(i, is_ours);
        if (table == NULL)
            return 0;
        unsigned char *byte = &table->bits[(i & (((uintptr_t)1 << TABLE_BITS) - 1)) / 8];
        if (is_ours)
            __atomic_fetch_or(byte, (unsigned char)(1 << i % 8), __ATOMIC_RELEASE);
        else
            __atomic_fetch_and(byte, (unsigned char)~(1 << i % 8), __ATOMIC_RELEASE);
    }
    return 1;
}

static int owns(const void *address)
{
    const uintptr_t granule = (uintptr_t)address >> GRANULE_BITS;
    if (granule >> (TABLE_BITS + ROOT_BITS) != 0)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    const struct table *table = table_at(granule, 0);
    if (table == NULL)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    const unsigned char *byte = &table->bits[(granule & (((uintptr_t)1 << TABLE_BITS) - 1)) / 8];
    return __atomic_load_n(byte, __ATOMIC_ACQUIRE) >> granule % 8 & 1 ? ALLOCATOR_REGISTRY_MINE
                                                                      : ALLOCATOR_REGISTRY_NOT_MINE;
}

/* ---- rpmalloc's memory ---- */

/* Whole granules, so that nobody else's memory is in one of them. */
static size_t whole(size_t size)
{
    return (size + GRANULE - 1) & -GRANULE;
}

static void *map_aligned(size_t size, size_t alignment)
{
    const size_t wanted = whole(size);
    if (wanted < size || wanted > SIZE_MAX - alignment)
        return NULL;
    char *at = mmap(NULL, wanted + alignment, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    const size_t before = -(uintptr_t)at & (alignment - 1);
    if (before != 0)
        munmap(at, before);
    if (before != alignment)
        munmap(at + before + wanted, alignment - before);
    if (!record(at + before, wanted, 1)) {
        record(at + before, wanted, 0);
        munmap(at + before, wanted);
        return NULL;
    }
    return at + before;
}

static void unmap_all(void *start, size_t size)
{
    record(start, whole(size), 0);
    munmap(start, whole(size));
}

#ifdef RPMALLOC_VERSION_MAJOR /* since 2 */
#    define RELEASE RPMALLOC_VERSION

static void *map(size_t size, size_t alignment, size_t *offset, size_t *mapped_size)
{
    *offset = 0;
    *mapped_size = whole(size);
    return map_aligned(size, alignment < GRANULE ? GRANULE : alignment);
}

static void unmap(void *address, size_t offset, size_t mapped_size)
{
    (void)offset;
    unmap_all(address, mapped_size);
}

static int commit(void *address, size_t size)
{
    (void)address, (void)size;
    return 0;
}

static int decommit(void *address, size_t size)
{
    return madvise(address, size, MADV_DONTNEED);
}

static rpmalloc_interface_t interface = {
    .memory_map = map,
    .memory_commit = commit,
    .memory_decommit = decommit,
    .memory_unmap = unmap,
};

__attribute__((constructor(101))) static void initialize(void)
{
    (void)rpmalloc_initialize(&interface);
}
#else
#    define RELEASE "1.4"

static void *map(size_t size, size_t *offset)
{
    *offset = 0;
    return map_aligned(size, GRANULE);
}

static void unmap(void *address, size_t size, size_t offset, size_t release)
{
    (void)offset;
    if (release != 0)
        unmap_all(address, release);
    else
        (void)madvise(address, size, MADV_DONTNEED);
}

__attribute__((constructor(101))) static void initialize(void)
{
    const rpmalloc_config_t config = {
        .memory_map = map,
        .memory_unmap = unmap,
        .span_size = GRANULE, /* mappings are aligned to spans */
    };
    (void)rpmalloc_initialize_config(&config);
}
#endif

/* ---- the member ---- */

/* rpmalloc's functions need a heap of the thread, which it does not make by itself. */
static void prepare_thread(void)
{
    if (!rpmalloc_is_thread_initialized())
        rpmalloc_thread_initialize();
}

static void free_block(void *block)
{
    const int saved_errno = errno;
    prepare_thread();
    rpfree(block);
    errno = saved_errno;
}

static size_t usable_size(const void *block)
{
    return rpmalloc_usable_size((void *)(uintptr_t)block);
}

static void *resize(void *block, size_t size)
{
    prepare_thread();
    return rprealloc(block, size);
}

static void *allocate(size_t size, size_t alignment)
{
    prepare_thread();
    return alignment != 0 ? rpaligned_alloc(alignment, size) : rpmalloc(size);
}

ALLOCATOR_REGISTRY_PUBLISH(rpmalloc_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "rpmalloc",
    RELEASE,
    0,
    owns,
    free_block,
    usable_size,
    resize,
    allocate,
    NULL,
    NULL,
    NULL,
    NULL,
};
