/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns what makes the frees of others find the spaces: pinned memory is a hosted allocator's pages
 * in the region; a device's memory is a foreign allocator's that is asked by a range check. Sealed;
 * no lock.
 */
#include "satellites/cuda/space/owners.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "satellites/cuda/cuda_core.h"
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/space/others.h"
#include "satellites/cuda/space/pool.h"
#include "satellites/cuda/space/spaces.h"

#include <errno.h>
#include <string.h>

/* ---- frees that name no stream ---- */

static enum hf_corruption_kind what_is(const void *ptr)
{
    struct hf_pool *pool = hf_pool_of(ptr);
    struct hf_varena_block block = hf_varena_find(&pool->area, ptr);
    if (block.was_freed)
        return HF_CORRUPT_FREED;
    return block.at != NULL && block.at != ptr ? HF_CORRUPT_INSIDE : HF_CORRUPT_NO_BLOCK;
}

static __attribute__((noreturn, cold)) void corrupted(const void *ptr, const void *caller,
                                                      enum hf_corruption purpose)
{
    hf_core()->corrupted(ptr, caller, purpose, what_is(ptr), hf_pool_of(ptr)->device);
}

static void free_plain(void *ptr, const void *caller)
{
    int saved_errno = errno;
    if (hf_core()->free_for(ptr, HF_STREAM_ANY, caller) == -EINVAL)
        corrupted(ptr, caller, HF_CORRUPT_IN_FREE);
    errno = saved_errno;
}

static size_t usable_size(const void *ptr, const void *caller)
{
    struct hf_space space = {.size = sizeof space};
    (void)hf_spaces_of(ptr, &space);
    if (space.block != ptr)
        corrupted(ptr, caller, HF_CORRUPT_IN_MEASURE);
    return space.block_size;
}

static void describe(const void *ptr, struct hf_owner *owner)
{
    struct hf_space space = {.size = sizeof space};
    (void)hf_spaces_of(ptr, &space);
    owner->kind = space.kind == HF_SPACE_PINNED ? HF_OWNER_PINNED : HF_OWNER_DEVICE;
    owner->allocator = "homefree";
    owner->object = hf_dynlink_name(hf_dynlink_find(hf_core()->region));
    owner->block = space.block;
    owner->block_size = space.block_size;
    owner->device = space.device;
}

/* ---- pinned memory ---- */

static void *resize_pinned(void *ptr, size_t size, const void *caller)
{
    size_t old = usable_size(ptr, caller);
    if (size == 0) {
        free_plain(ptr, caller);
        return NULL;
    }
    if (size <= old) {
        hf_core()->resized(ptr, size, caller);
        return ptr;
    }
    void *moved = NULL;
    if (hf_core()->alloc_for(&moved, HF_SPACE_PINNED, 0, size, 0, NULL, caller) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(moved, ptr, old < size ? old : size);
    free_plain(ptr, caller);
    return moved;
}

static const struct hf_hosted pinned_hosted = {
    .free = free_plain,
    .realloc = resize_pinned,
    .usable_size = usable_size,
    .describe = describe,
    .records = true,
};

/* ---- devices' memory ---- */

static void *resize_device(void *ptr, size_t size, const void *caller)
{
    if (size == 0) {
        free_plain(ptr, caller);
        return NULL;
    }
    struct hf_text text;
    hf_text_begin_fatal(&text, "realloc", ptr);
    hf_text_say(&text, "the block is memory of CUDA device %d, which the host cannot copy",
                hf_pool_of(ptr)->device);
    hf_text_add_caller(&text, caller);
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; allocate a "
                       "new block with hf_space_alloc() and copy with cudaMemcpyAsync()");
    hf_core()->fatal(&text);
}

static const struct hf_hosted device_hosted = {
    .free = free_plain,
    .realloc = resize_device,
    .usable_size = usable_size,
    .describe = describe,
    .records = true,
};

static bool is_device_memory(const void *ptr)
{
    const struct hf_pool *pool = hf_pool_of(ptr);
    return pool != NULL && pool->kind == HF_SPACE_DEVICE;
}

/* Called with pool.c's `opening`. */
static bool add_device(void)
{
    static bool added;
    if (added)
        return true;
    unsigned number = hf_core()->foreign_reserve();
    if (number == 0)
        return false;
    const struct link_map *map = hf_dynlink_find(hf_core()->region);
    const struct hf_foreign_allocator allocator = {
        .name = "homefree",
        .object = hf_dynlink_name(map),
        .map = map,
        .kind = HF_QUESTION_TRUE,
        .question = (void *)is_device_memory,
        .form = HF_FREE_HOSTED,
        .hosted = &device_hosted,
    };
    hf_core()->foreign_publish(number, &allocator);
    hf_core()->ask();
    added = true;
    return true;
}

/* ---- CUDA's own functions ---- */

/* Frees a pointer of a space, or one of the heap, and returns true with CUDA's result for the
 * caller; false: the pointer is not homefree's. Calls nothing of CUDA's, but to mark a stream. */
static bool free_ours(const struct hf_cuda_returned *returned, int *result)
{
    const void *stream = returned->stream;
    const bool ours = hf_pool_of(returned->ptr) != NULL;
    const bool ends_what_callers_began =
        stream == HF_SPACE_UNREGISTERS || stream == HF_SPACE_UNMAPS;
    /* A caller may have registered blocks of the heap. */
    if (HF_LIKELY(!ours && (ends_what_callers_began || !hf_core_owns(returned->ptr))))
        return false;
    *result = HF_CUDA_SUCCESS;
    if (stream == HF_SPACE_UNREGISTERS)
        *result = HF_CUDA_NOT_REGISTERED;
    else if (stream == HF_SPACE_UNMAPS ||
             hf_core()->free_for(returned->ptr, returned->stream, returned->caller) == -EINVAL)
        *result = HF_CUDA_INVALID_VALUE;
    return true;
}

/* Memory that CUDA gave to somebody is forgotten before it is given back: another thread may get
 * it at once. */
static int return_others(const struct hf_cuda_returned *returned)
{
    struct hf_others_block block;
    int result;
    if (returned->meant == HF_OTHERS_MAPPED) { /* whose `second` is the size of a range */
        result = returned->function(returned->ptr, returned->second);
        if (result == HF_CUDA_SUCCESS)
            hf_others_unmapped(returned->ptr, (size_t)returned->second);
        return result;
    }
    if (hf_others_freeing(returned->ptr, returned->meant, &block, &result))
        return result;
    result = returned->function(returned->ptr, returned->second);
    if (result != HF_CUDA_SUCCESS)
        hf_others_keep(&block);
    return result;
}

int hf_owners_returned(const struct hf_cuda_returned *returned)
{
    int result;
    if (HF_UNLIKELY(free_ours(returned, &result)))
        return result;
    if (HF_UNLIKELY(hf_others_any()))
        return return_others(returned);
    return returned->function(returned->ptr, returned->second);
}

/* ---- memory that CUDA gave to others ---- */

void hf_owners_describe(const void *ptr, struct hf_owner *owner)
{
    struct hf_cuda_address found = {.type = HF_CUDA_NONE};
    if (hf_others_describe(ptr, owner) || !hf_cuda_found() || hf_cuda_address(ptr, &found) != 0 ||
        found.type == HF_CUDA_NONE)
        return;
    static const char *const names[] = {
        [HF_CUDA_PINNED] = "CUDA, page-locked memory",
        [HF_CUDA_DEVICE] = "CUDA, memory of a device",
        [HF_CUDA_MANAGED] = "CUDA, managed memory",
    };
    owner->kind = HF_OWNER_CUDA;
    owner->allocator = found.pool != 0 ? "CUDA, a stream-ordered pool" : names[found.type];
    owner->block = (const void *)found.start;
    owner->block_size = found.size;
    owner->device = found.device;
}

static const struct hf_pool_owners owners = {.pinned = &pinned_hosted, .add_device = add_device};

void hf_owners_start(void)
{
    hf_pool_start(&owners);
}
