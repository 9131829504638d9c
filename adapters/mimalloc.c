/* SPDX-License-Identifier: 0BSD */
/*
 * Makes a mimalloc (2 or 3) a member of the registry: compile this file with mimalloc's include
 * directory, and link it into whatever holds that mimalloc.
 *
 * mimalloc 3 keeps a map of its pages, in which a large block has its first part alone. mimalloc 2
 * knows arenas, and a bit for each segment below 20 to 48 TiB (by release): of a block of a
 * gigabyte and more, which the kernel puts higher, it says that it is not its own, and of what lies
 * behind the first segment of a large block. Before 2.1.9 it looks through the map for that.
 */
#include <errno.h>
#include <mimalloc.h>

#include "allocator_registry.h"

#define TEXT(value)   #value
#define STRING(value) TEXT(value)

/* The number has three digits, or five from 3.2 on. */
#define MAJOR (MI_MALLOC_VERSION >= 10000 ? MI_MALLOC_VERSION / 10000 : MI_MALLOC_VERSION / 100)

static int owns(const void *address)
{
    /* 3.0 says yes to a null pointer. */
    return address != NULL && mi_is_in_heap_region(address) ? ALLOCATOR_REGISTRY_MINE
                                                            : ALLOCATOR_REGISTRY_NOT_MINE;
}

static void free_block(void *block)
{
    const int saved_errno = errno;
    mi_free(block);
    errno = saved_errno;
}

static size_t usable_size(const void *block)
{
    return mi_usable_size(block);
}

static void *resize(void *block, size_t size)
{
    return mi_realloc(block, size);
}

static void *allocate(size_t size, size_t alignment)
{
    return alignment != 0 ? mi_malloc_aligned(size, alignment) : mi_malloc(size);
}

static void trim(void)
{
    const int saved_errno = errno;
    mi_collect(true);
    errno = saved_errno;
}

ALLOCATOR_REGISTRY_PUBLISH(mimalloc_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "mimalloc",
    STRING(MI_MALLOC_VERSION),
    MAJOR >= 3 ? ALLOCATOR_REGISTRY_DENIES_INSIDE
               : ALLOCATOR_REGISTRY_SLOW | ALLOCATOR_REGISTRY_DENIES_INSIDE |
                     ALLOCATOR_REGISTRY_DENIES_BLOCKS,
    owns,
    free_block,
    usable_size,
    resize,
    allocate,
    NULL,
    NULL,
    trim,
    NULL,
};
