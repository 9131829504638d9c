// SPDX-License-Identifier: 0BSD
//
// Makes an snmalloc (0.7) a member of the registry: compile this file with snmalloc's include
// directory and the macros that the rest of its object is compiled with, and link it into whatever
// holds that snmalloc.
//
// snmalloc's map has an entry for each chunk of the address space, which may be read for any
// address: who has the chunk, and the size of its blocks. What is free in a slab is in lists inside
// of the blocks, so a freed block counts as live.
#include <snmalloc/snmalloc.h>

#include <cerrno>

#include "allocator_registry.h"

namespace
{

int owns(const void *address)
{
    const auto &entry =
        snmalloc::Config::Backend::get_metaentry<true>(snmalloc::address_cast(address));
    if (!entry.is_owned())
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (entry.is_backend_owned())
        return ALLOCATOR_REGISTRY_NO_BLOCK;
    const size_t inside = snmalloc::index_in_object(snmalloc::address_cast(address));
    return inside == 0 ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_INSIDE;
}

void free_block(void *block)
{
    const int saved_errno = errno;
    snmalloc::libc::free(block);
    errno = saved_errno;
}

size_t usable_size(const void *block)
{
    return snmalloc::libc::malloc_usable_size(block);
}

void *resize(void *block, size_t size)
{
    return snmalloc::libc::realloc(block, size);
}

void *allocate(size_t size, size_t alignment)
{
    return alignment != 0 ? snmalloc::libc::memalign(alignment, size)
                          : snmalloc::libc::malloc(size);
}

} // namespace

ALLOCATOR_REGISTRY_PUBLISH(snmalloc_member) = {
    ALLOCATOR_REGISTRY_VERSION,
    sizeof(struct allocator_registry),
    "snmalloc",
    nullptr,
    ALLOCATOR_REGISTRY_TELLS_FIRST,
    owns,
    free_block,
    usable_size,
    resize,
    allocate,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};
