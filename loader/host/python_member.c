/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CPython's allocators as a member of the registry (include/allocator_registry.h): pymalloc on the
 * pages that the region lends it or that it had before, and the mimalloc of a free-threaded
 * CPython, as far as homefree knows them, which is from hf_python_install() on, or from the start
 * of whole-process mode. Owns one constant structure, which nothing here refers to. Its functions
 * end the process where a hosted allocator's do; `ready` says whether they may be called.
 */
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/hosted.h"
#include "include/allocator_registry.h"
#include "loader/host/cpython.h"

#include <errno.h>

static const struct hf_hosted *hosted_of(const void *address)
{
    return hf_owned(address) ? hf_hosted_of(address) : hf_foreign_hosted_of(address);
}

static int owns(const void *address)
{
    struct hf_owner owner = {.block = NULL};
    const struct hf_hosted *hosted = hosted_of(address);
    if (hosted == NULL)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    hosted->describe(address, &owner);
    /* Others are guarded samples of the heap, and spaces. */
    if (owner.kind != HF_OWNER_PYMALLOC && owner.kind != HF_OWNER_ALLOCATOR)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (owner.block == NULL)
        return ALLOCATOR_REGISTRY_MINE;
    return owner.block == address ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_INSIDE;
}

static void free_block(void *block)
{
    const struct hf_hosted *hosted = hosted_of(block);
    if (hosted != NULL)
        hosted->free(block, __builtin_return_address(0));
}

static size_t usable_size(const void *block)
{
    const struct hf_hosted *hosted = hosted_of(block);
    return hosted != NULL ? hosted->usable_size(block, __builtin_return_address(0)) : 0;
}

static void *resize(void *block, size_t size)
{
    const struct hf_hosted *hosted = hosted_of(block);
    if (hosted != NULL)
        return hosted->realloc(block, size, __builtin_return_address(0));
    errno = ENOMEM;
    return NULL;
}

static int ready(void)
{
    const struct hf_cpython *cpython = hf_cpython();
    return cpython != NULL && hf_cpython_attached(cpython);
}

ALLOCATOR_REGISTRY_PUBLISH(hf_python_member) = {
    .version = ALLOCATOR_REGISTRY_VERSION,
    .size = sizeof(struct allocator_registry),
    .name = "CPython",
    .flags = ALLOCATOR_REGISTRY_DENIES_BLOCKS,
    .owns = owns,
    .free_block = free_block,
    .usable_size = usable_size,
    .resize = resize,
    .ready = ready,
};
