/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap as a member of the registry (include/allocator_registry.h): whoever reads that can send
 * the heap's blocks home without knowing homefree. Owns one constant structure, which nothing here
 * refers to. Callable at any stage.
 *
 * Pages that are lent to CPython are not the heap's (loader/host/python_member.c), but those with
 * guarded samples are. An instance that forwards owns nothing; the heap's is a member itself.
 */
#include "alloc/base/sized.h"
#include "alloc/heap/front_end.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/hosted.h"
#include "include/allocator_registry.h"

#include <homefree/homefree.h>

static int owns(const void *address)
{
    struct hf_owner owner = {.kind = HF_OWNER_HEAP};
    if (!hf_owned(address) || hf_forward != NULL)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (!hf_hosted_describe(address, &owner))
        (void)hf_heap_block(address, &owner.block);
    if (owner.kind != HF_OWNER_HEAP)
        return ALLOCATOR_REGISTRY_NOT_MINE;
    if (owner.block == NULL)
        return ALLOCATOR_REGISTRY_NO_BLOCK;
    return address == owner.block ? ALLOCATOR_REGISTRY_BLOCK : ALLOCATOR_REGISTRY_INSIDE;
}

static void *allocate(size_t size, size_t alignment)
{
    return alignment != 0 ? hf_memalign(alignment, size) : hf_malloc(size);
}

static void trim(void)
{
    if (hf_forward == NULL)
        (void)hf_heap_trim();
}

static int statistics(struct allocator_registry_statistics *out)
{
    struct hf_stats stats = {.size = sizeof stats};
    if (hf_stats(&stats) != 0)
        return -1;
    const struct allocator_registry_statistics ours = {.live = stats.allocated,
                                                       .held = stats.resident};
    hf_sized_copy(out, &ours, sizeof ours);
    return 0;
}

/* Not the exported functions: their addresses may lie in another object. */
static void free_block(void *block)
{
    hf_free(block);
}

static size_t usable_size(const void *block)
{
    return hf_usable_size(block);
}

static void *resize(void *block, size_t size)
{
    return hf_realloc(block, size);
}

ALLOCATOR_REGISTRY_PUBLISH(hf_heap_member) = {
    .version = ALLOCATOR_REGISTRY_VERSION,
    .size = sizeof(struct allocator_registry),
    .name = "homefree",
    .release = HF_VERSION,
    .flags = ALLOCATOR_REGISTRY_TELLS_FIRST | ALLOCATOR_REGISTRY_TELLS_DEAD,
    .owns = owns,
    .free_block = free_block,
    .usable_size = usable_size,
    .resize = resize,
    .allocate = allocate,
    .trim = trim,
    .statistics = statistics,
};
