/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the owner of an address. Owns nothing, allocates nothing and takes no lock of the heap;
 * only pthread_getattr_np(), called for an address in the mapping of this thread's stack, does
 * both.
 *
 * Constraint: the address may be anything. So memory is read only by a system call that fails
 * instead of faulting, an allocator's answer counts only if it agrees with the kernel's, and an
 * owner that is not certain is unknown. The answer may be out of date when it is returned.
 */
#include "alloc/owner/owner.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/maps.h"
#include "alloc/base/sized.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/hosted.h"
#include "alloc/owner/libc_heap.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

bool hf_owns(const void *ptr)
{
    return hf_owned(ptr);
}

/* ---- stacks ---- */

/*
 * glibc places a thread's control block at the end of its stack, and a guard before the stack. So a
 * mapping that follows a guard and ends in a control block is a stack. On x86-64 a control block is
 * recognisable: it holds its own address twice (the ABI's first word of a thread, and
 * tcbhead_t.self). On aarch64 it lies below the thread's variables and holds no address of its own;
 * its three words with the stack's start, the stack's size and the guard's size, which the first
 * two include, must agree with the mapping.
 *
 * From glibc 2.42 on (Linux 6.13) the guard is an invisible part of the mapping, and one mapping
 * may hold several stacks. There the stack's start and size, which the control block also holds,
 * decide.
 */
#define CONTROL_BLOCK_ROOM 8192

/* Whether the mapping ends in a control block; without a guard, also whether that control block's
 * stack holds the address. */
static bool ends_in_control_block(const struct hf_mapping *mapping, bool guarded, uintptr_t address)
{
    enum { WORDS = CONTROL_BLOCK_ROOM / sizeof(uintptr_t) };
    uintptr_t words[WORDS];
    if (mapping->end - mapping->start < sizeof words ||
        !hf_maps_read((const void *)(mapping->end - sizeof words), words, sizeof words))
        return false;
#if defined(__x86_64__)
    enum { ALIGNMENT = 64 / sizeof(uintptr_t) };
    for (size_t i = 0; i + 2 < WORDS; i += ALIGNMENT) {
        uintptr_t own = mapping->end - sizeof words + i * sizeof words[0];
        if (words[i] != own || words[i + 2] != own)
            continue;
        if (guarded)
            return true;
        for (size_t j = i + 3; j + 1 < WORDS; j++)
            if (words[j] >= mapping->start && words[j] <= address &&
                words[j + 1] == mapping->end - words[j] && words[j + 1] >= CONTROL_BLOCK_ROOM)
                return true;
    }
#else
    for (size_t i = 0; i + 2 < WORDS; i++) {
        const uintptr_t start = words[i], size = words[i + 1], guard = words[i + 2];
        if (start >= mapping->end || size != mapping->end - start || guard >= size)
            continue;
        if (guarded ? guard == mapping->start - start
                    : start >= mapping->start && start <= address && size >= CONTROL_BLOCK_ROOM)
            return true;
    }
#endif
    return false;
}

/* Whether the address is on this thread's stack, even if the program allocated it or it has no
 * guard. */
static bool is_own_stack(uintptr_t address, const struct hf_mapping *mapping)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (here - mapping->start >= mapping->end - mapping->start)
        return false;
    pthread_attr_t attributes;
    void *start = NULL;
    size_t size = 0;
    int saved_errno = errno;
    bool found = pthread_getattr_np(pthread_self(), &attributes) == 0;
    if (found) {
        found = pthread_attr_getstack(&attributes, &start, &size) == 0 &&
                address - (uintptr_t)start < size;
        pthread_attr_destroy(&attributes);
    }
    errno = saved_errno;
    return found;
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_stack(uintptr_t address, const struct hf_place *place)
{
    const struct hf_mapping *at = &place->at, *before = &place->before;
    if (strcmp(at->name, "[stack]") == 0 || starts_with(at->name, "[anon: glibc: pthread stack"))
        return true;
    if (!at->anonymous || at->shared || !at->readable || !at->writable)
        return false;
    bool guarded = before->end == at->start && before->anonymous && !before->readable &&
                   !before->writable && !before->executable;
    return ends_in_control_block(at, guarded, address) || is_own_stack(address, at);
}

/* ---- the answer ---- */

static void name_allocator(const struct hf_foreign_allocator *allocator, struct hf_owner *owner)
{
    owner->kind = HF_OWNER_ALLOCATOR;
    owner->allocator = allocator->name;
    owner->object = allocator->object;
}

/* Foreign allocators are asked only about mapped user-space addresses; their tables need not cover
 * others. */
static void describe_elsewhere(const void *ptr, struct hf_owner *owner)
{
    struct hf_place place;
    int found = hf_maps_find(ptr, &place);
    if (found == 0)
        owner->kind = HF_OWNER_UNMAPPED;
    if (found == 0 || (uintptr_t)ptr >> HF_USER_BITS != 0)
        return;
    const struct hf_foreign_allocator *allocator = hf_foreign_of(ptr);
    if (allocator != NULL && allocator->form == HF_FREE_HOSTED)
        allocator->hosted->describe(ptr, owner);
    else if (allocator != NULL)
        name_allocator(allocator, owner);
    else if (found > 0 && is_stack((uintptr_t)ptr, &place))
        owner->kind = HF_OWNER_STACK;
    else if (found > 0)
        hf_libc_heap_describe(ptr, &place, owner);
}

static void describe(const void *ptr, struct hf_owner *owner)
{
    if (hf_owned(ptr)) {
        if (hf_hosted_describe(ptr, owner))
            return;
        owner->kind = HF_OWNER_HEAP;
        owner->block_size = hf_heap_block(ptr, &owner->block);
        owner->allocator = "homefree";
        owner->object = hf_dynlink_name(hf_dynlink_find(&hf_region));
        return;
    }
    const struct link_map *map = hf_dynlink_find(ptr);
    if (map != NULL) {
        owner->kind = HF_OWNER_STATIC;
        owner->object = hf_dynlink_name(map);
        return;
    }
    describe_elsewhere(ptr, owner);
}

int hf_owner_of_here(const void *ptr, struct hf_owner *out)
{
    struct hf_owner owner = {.kind = HF_OWNER_UNKNOWN, .device = -1, .interpreter = -1};
    if (out == NULL || out->size < offsetof(struct hf_owner, allocator))
        return -EINVAL;
    describe(ptr, &owner);
    hf_sized_copy(out, &owner, sizeof owner);
    return 0;
}
