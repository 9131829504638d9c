/* SPDX-License-Identifier: 0BSD */
/*
 * Makes gperftools' tcmalloc a member of the registry: compile this file with gperftools' headers,
 * and link it into whatever holds that tcmalloc.
 *
 * Its ownership is that of pages, in a map of the whole address space that is read without a lock:
 * all pages of small blocks, the first and the last one of a large block. Pages of a freed large
 * block stay in it.
 */
#include <errno.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/tcmalloc.h>
#include <string.h>

#include "allocator_registry.h"

#define TEXT(value)   #value
#define STRING(value) TEXT(value)

static int owns(const void *address)
{
    return MallocExtension_GetOwnership(address) == MallocExtension_kOwned
               ? ALLOCATOR_REGISTRY_MINE
               : ALLOCATOR_REGISTRY_NOT_MINE;
}

static void free_block(void *block)
{
    const int saved_errno = errno;
    tc_free(block);
    errno = saved_errno;
}

static size_t usable_size(const void *block)
{
    return tc_malloc_size((void *)(uintptr_t)block);
}

static void *resize(void *block, size_t size)
{
    return tc_realloc(block, size);
}

static void *allocate(size_t size, size_t alignment)
{
    return alignment != 0 ? tc_memalign(alignment, size) : tc_malloc(size);
}

static void trim(void)
{
    const int saved_errno = errno;
    MallocExtension_ReleaseFreeMemory();
    errno = saved_errno;
}

static uint64_t counter(const char *name)
{
    size_t value;
    return MallocExtension_GetNumericProperty(name, &value) ? value : UINT64_MAX;
}

static int statistics(struct allocator_registry_statistics *out)
{
    const struct allocator_registry_statistics ours = {
        out->size, counter("generic.current_allocated_bytes"), counter("generic.heap_size")};
    memcpy(out, &ours, out->size < sizeof ours ? out->size : sizeof ours);
    return 0;
}

ALLOCATOR_REGISTRY_PUBLISH(tcmalloc_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "tcmalloc",
    STRING(TC_VERSION_MAJOR) "." STRING(TC_VERSION_MINOR),
    ALLOCATOR_REGISTRY_DENIES_INSIDE,
    owns,
    free_block,
    usable_size,
    resize,
    allocate,
    NULL,
    NULL,
    trim,
    statistics,
};
