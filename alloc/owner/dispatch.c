/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends foreign pointers home. Owns two flags, written once at libhomefree's start and read without
 * a lock. Callable at any stage.
 */
#include "alloc/owner/dispatch.h"

#include "alloc/base/fatal.h"
#include "alloc/base/libc_functions.h"
#include "alloc/base/maps.h"
#include "alloc/base/options.h"
#include "alloc/owner/static_data.h"
#include "alloc/trace/fail.h"

#include <errno.h>
#include <string.h>

/* Pointers are checked before libc's free() and realloc() get them (static_data.h). */
static bool guarded;
static bool started;

void hf_dispatch_start(void)
{
    started = true;
    guarded = hf_static_guards("free", (const void *)hf_libc()->free);
}

static bool is_suspect(const void *ptr)
{
    return guarded && HF_UNLIKELY(hf_static_suspect(ptr));
}

/* Ends the process, or returns if the block is to be leaked. */
static __attribute__((noinline, cold)) void homeless(const struct hf_foreign_allocator *allocator,
                                                     const void *ptr, const char *call,
                                                     const void *caller)
{
    struct hf_text text;
    const bool leaks = hf_options.unknown_free == HF_UNKNOWN_FREE_LEAK;
    if (leaks && hf_foreign_leak(allocator) != 0)
        return;
    (leaks ? hf_text_begin_warning : hf_text_begin_fatal)(&text, call, ptr);
    hf_text_say(&text, "the block belongs to the %s inside %s, which %s", allocator->name,
                allocator->object,
                allocator->ready != NULL ? "this thread may not call now"
                                         : "has no function that could be called for this");
    hf_text_add_caller(&text, caller);
    if (leaks) {
        hf_text_add(&text,
                    "; leaked because of HOMEFREE_CONF=unknown_free:leak; later ones of this "
                    "allocator are leaked without a warning");
        hf_text_write(&text);
        return;
    }
    hf_text_add(&text, "; going on would hand it to libc, which did not allocate it; install that "
                       "object's debug file or an unstripped build of it, or free the block by "
                       "that object's own function; HOMEFREE_CONF=unknown_free:leak leaks it");
    hf_fatal(&text);
}

/* Whether the calling thread may call the allocator's functions. */
static bool is_ready(const struct hf_foreign_allocator *allocator)
{
    return allocator->ready == NULL || allocator->ready() != 0;
}

/* Around calls of an allocator's functions for a block. Result: what leave() needs. */
static const void *enter(const struct hf_foreign_allocator *allocator, const void *ptr)
{
    const void *outer = hf_foreign_handed_on;
    if (allocator->kind == HF_QUESTION_ANSWER)
        hf_foreign_handed_on = ptr;
    return outer;
}

static void leave(const void *outer)
{
    hf_foreign_handed_on = outer;
}

/* free() must preserve errno (POSIX.1-2024); not every allocator does. */
void hf_foreign_call_free(const struct hf_foreign_allocator *allocator, void *ptr,
                          const void *caller)
{
    int saved_errno = errno;
    if (HF_UNLIKELY(!is_ready(allocator))) {
        homeless(allocator, ptr, "free", caller);
        return;
    }
    const void *outer = enter(allocator, ptr);
    switch (allocator->form) {
    case HF_FREE_PLAIN:
        ((void (*)(void *))allocator->release)(ptr);
        break;
    case HF_FREE_FLAGS:
        ((void (*)(void *, int))allocator->release)(ptr, 0);
        break;
    case HF_FREE_RESIZE:
        ((void *(*)(void *, size_t))allocator->release)(ptr, 0);
        break;
    case HF_FREE_HOSTED:
        allocator->hosted->free(ptr, caller);
        break;
    case HF_FREE_NONE:
        homeless(allocator, ptr, "free", caller);
    }
    leave(outer);
    errno = saved_errno;
}

void hf_foreign_call_delete(const struct hf_foreign_allocator *allocator, enum hf_delete_form form,
                            void *ptr, size_t alignment, const void *caller)
{
    if (allocator->deletes[form] == NULL) {
        hf_foreign_call_free(allocator, ptr, caller);
        return;
    }
    int saved_errno = errno;
    ((void (*)(void *, size_t))allocator->deletes[form])(ptr, alignment);
    errno = saved_errno;
}

void *hf_foreign_call_realloc(const struct hf_foreign_allocator *allocator, void *ptr, size_t size,
                              const void *caller)
{
    if (allocator->form == HF_FREE_HOSTED)
        return allocator->hosted->realloc(ptr, size, caller);
    if (size == 0) { /* frees, as in libc, whatever the owner's
                      * realloc does */
        hf_foreign_call_free(allocator, ptr, caller);
        return NULL;
    }
    const bool leaks = allocator->form == HF_FREE_NONE || !is_ready(allocator);
    if (allocator->realloc != NULL && !leaks) {
        const void *outer = enter(allocator, ptr);
        void *resized = allocator->realloc(ptr, size);
        leave(outer);
        return resized;
    }
    if (leaks)
        homeless(allocator, ptr, "realloc", caller);
    void *moved = hf_libc()->malloc(size);
    if (moved == NULL)
        return NULL;
    const bool measured = allocator->usable_size != NULL && !leaks;
    size_t old = measured ? hf_foreign_call_usable_size(allocator, ptr, caller) : 0;
    if (!measured)
        hf_maps_copy(ptr, moved, size);
    else
        memcpy(moved, ptr, old < size ? old : size);
    if (!leaks)
        hf_foreign_call_free(allocator, ptr, caller);
    return moved;
}

size_t hf_foreign_call_usable_size(const struct hf_foreign_allocator *allocator, const void *ptr,
                                   const void *caller)
{
    if (allocator->form == HF_FREE_HOSTED)
        return allocator->hosted->usable_size(ptr, caller);
    if (allocator->usable_size == NULL || !is_ready(allocator))
        return 0;
    const void *outer = enter(allocator, ptr);
    const size_t size = allocator->usable_size(ptr);
    leave(outer);
    return size;
}

bool hf_foreign_call_trim(const struct hf_foreign_allocator *allocator)
{
    /* jemalloc's own name for all arenas (MALLCTL_ARENAS_ALL of jemalloc_macros.h). */
    static const char *const all[] = {"thread.tcache.flush", "arena.4096.purge"};
    if (allocator->hosted != NULL)
        return allocator->hosted->trim != NULL && allocator->hosted->trim();
    switch (allocator->trim_form) {
    case HF_TRIM_ALL:
        ((void (*)(void))allocator->trim)();
        break;
    case HF_TRIM_FORCE:
        ((void (*)(bool))allocator->trim)(true);
        break;
    case HF_TRIM_COMMAND: {
        /* Before its first block, oneTBB takes what another library has under a pthread key for its
         * own. */
        void *block = allocator->realloc != NULL && allocator->form == HF_FREE_PLAIN
                          ? allocator->realloc(NULL, 1)
                          : NULL;
        if (block == NULL)
            return false;
        hf_foreign_call_free(allocator, block, NULL);
        (void)((int (*)(int, void *))allocator->trim)(0, NULL);
        break;
    }
    case HF_TRIM_MALLCTL:
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            (void)((int (*)(const char *, void *, size_t *, void *, size_t))allocator->trim)(
                all[i], NULL, NULL, NULL, 0);
        break;
    case HF_TRIM_NONE:
        return false;
    }
    return true;
}

bool hf_foreign_call_live(const struct hf_foreign_allocator *allocator, uint64_t *live)
{
    struct allocator_registry_statistics statistics = {sizeof statistics, UINT64_MAX, UINT64_MAX};
    if (allocator->statistics != NULL && allocator->statistics(&statistics) == 0 &&
        statistics.live != UINT64_MAX) {
        *live = statistics.live;
        return true;
    }
    if (allocator->trim_form != HF_TRIM_MALLCTL)
        return false;
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) =
        (int (*)(const char *, void *, size_t *, void *, size_t))allocator->trim;
    uint64_t epoch = 1; /* any: the counters are brought up to date */
    size_t bytes, size = sizeof bytes;
    if (mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0 ||
        mallctl("stats.allocated", &bytes, &size, NULL, 0) != 0)
        return false;
    *live = bytes;
    return true;
}

/* Whether an address lies where the region has yet to grow, and nothing of others is there. */
static bool is_nobodys(const void *ptr)
{
    char byte;
    return HF_UNLIKELY((uintptr_t)ptr - hf_region.base < hf_region.limit) &&
           !hf_maps_read(ptr, &byte, sizeof byte);
}

/* The allocator to call instead of hf_libc(), or NULL. Ends the process where libc would read what
 * is not mapped. */
static const struct hf_foreign_allocator *instead_of_ours(const void *ptr, const void *caller,
                                                          enum hf_corruption purpose)
{
    if (HF_UNLIKELY(!started))
        hf_start_early();
    if (is_nobodys(ptr))
        hf_heap_corrupted(ptr, caller, purpose, HF_CORRUPT_NO_BLOCK);
    return hf_foreign_instead_of_ours(ptr);
}

static bool is_watched(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_watching, __ATOMIC_RELAXED));
}

static __attribute__((noinline, cold)) void watch(const struct hf_foreign_allocator *allocator,
                                                  void *ptr, const void *caller, bool freed)
{
    const char *object = allocator != NULL ? allocator->object : NULL;
    struct hf_owner owner = {.object = NULL};
    if (allocator != NULL && allocator->form == HF_FREE_HOSTED) {
        if (allocator->hosted->records)
            return;
        allocator->hosted->describe(ptr, &owner);
        object = owner.object;
    }
    size_t size = object != NULL ? owner.block_size : hf_libc()->usable_size(ptr);
    hf_watch_freed_foreign(ptr, size, object, caller, freed);
}

/* ---- for copies that forward ---- */

/* Only the heap's copy knows the foreign allocators of the process, and the spaces. NULL in that
 * copy, and beside one that cannot be asked. */
static const struct hf_foreign_functions *heaps_copy(void)
{
    return HF_UNLIKELY(hf_forward != NULL) ? hf_instance_forward()->foreign : NULL;
}

/* The owner of a pointer of another copy's; libc and whoever serves the process is that copy's own
 * business. */
static const struct hf_foreign_allocator *private_owner(const void *ptr)
{
    const struct hf_foreign_allocator *owner = hf_foreign_of(ptr);
    return owner != NULL && owner->serves != HF_SERVES_PROCESS ? owner : NULL;
}

static bool free_for(void *ptr, const void *caller)
{
    const struct hf_foreign_allocator *owner = private_owner(ptr);
    if (owner == NULL)
        return false;
    if (is_watched())
        watch(owner, ptr, caller, true);
    hf_foreign_call_free(owner, ptr, caller);
    return true;
}

static bool delete_for(void *ptr, enum hf_delete_form form, size_t alignment, const void *caller)
{
    const struct hf_foreign_allocator *owner = private_owner(ptr);
    if (owner == NULL)
        return false;
    if (is_watched())
        watch(owner, ptr, caller, true);
    hf_foreign_call_delete(owner, form, ptr, alignment, caller);
    return true;
}

static bool realloc_for(void *ptr, size_t size, const void *caller, void **moved)
{
    const struct hf_foreign_allocator *owner = private_owner(ptr);
    if (owner == NULL)
        return false;
    if (is_watched()) {
        *moved = NULL;
        if (size != 0 && hf_fail_here())
            return true;
        watch(owner, ptr, caller, size == 0);
    }
    *moved = hf_foreign_call_realloc(owner, ptr, size, caller);
    return true;
}

static bool usable_size_for(const void *ptr, const void *caller, size_t *size)
{
    const struct hf_foreign_allocator *owner = private_owner(ptr);
    if (owner == NULL)
        return false;
    *size = hf_foreign_call_usable_size(owner, ptr, caller);
    return true;
}

const struct hf_foreign_functions hf_dispatch_functions = {
    .free = free_for,
    .free_delete = delete_for,
    .realloc = realloc_for,
    .usable_size = usable_size_for,
};

/* A block that has moved to libc must be in this copy's, which may be another one. */
static void *into_own_libc(void *moved, size_t size, const struct hf_foreign_functions *other)
{
    size_t unused;
    if (moved == NULL || hf_owned(moved) || other->usable_size(moved, NULL, &unused))
        return moved;
    void *own = hf_libc()->malloc(size);
    if (own == NULL)
        return moved;
    memcpy(own, moved, size);
    hf_forward->free(moved);
    return own;
}

/* ---- homefree's own functions ---- */

bool hf_delete_foreign_for(void *ptr, enum hf_delete_form form, size_t alignment,
                           const void *caller)
{
    if (ptr == NULL || hf_owned(ptr))
        return false;
    const struct hf_foreign_functions *other = heaps_copy();
    if (HF_UNLIKELY(other != NULL) && other->free_delete(ptr, form, alignment, caller))
        return true;
    const struct hf_foreign_allocator *allocator = instead_of_ours(ptr, caller, HF_CORRUPT_IN_FREE);
    if (is_watched())
        watch(allocator, ptr, caller, true);
    if (allocator == NULL || allocator->deletes[form] == NULL)
        return false;
    hf_foreign_call_delete(allocator, form, ptr, alignment, caller);
    return true;
}

void hf_free_foreign(void *ptr)
{
    if (ptr == NULL)
        return;
    /* The process's first call may be a free(). Only a started copy knows the region. */
    if (HF_UNLIKELY(hf_region.size == 0)) {
        hf_heap_start();
        if (hf_owned(ptr)) {
            hf_free(ptr);
            return;
        }
    }
    const struct hf_foreign_functions *other = heaps_copy();
    if (HF_UNLIKELY(other != NULL) && other->free(ptr, __builtin_return_address(0)))
        return;
    const struct hf_foreign_allocator *allocator =
        instead_of_ours(ptr, __builtin_return_address(0), HF_CORRUPT_IN_FREE);
    if (is_watched())
        watch(allocator, ptr, __builtin_return_address(0), true);
    if (allocator == NULL && is_suspect(ptr) &&
        hf_static_freed(ptr, "free", __builtin_return_address(0)))
        return;
    hf_foreign_call_free(allocator != NULL ? allocator : &hf_foreign_scope, ptr,
                         __builtin_return_address(0));
}

void *hf_realloc_foreign(void *ptr, size_t size, const void *caller)
{
    void *moved;
    const struct hf_foreign_functions *other = heaps_copy();
    if (HF_UNLIKELY(other != NULL) && other->realloc(ptr, size, caller, &moved))
        return moved == ptr ? moved : into_own_libc(moved, size, other);
    const struct hf_foreign_allocator *allocator =
        instead_of_ours(ptr, caller, HF_CORRUPT_IN_REALLOC);
    if (is_watched()) {
        if (size != 0 && hf_fail_here())
            return NULL;
        watch(allocator, ptr, caller, size == 0);
    }
    if (allocator != NULL)
        return hf_foreign_call_realloc(allocator, ptr, size, caller);
    if (is_suspect(ptr) && hf_static_resized(ptr, size, caller, &moved))
        return moved;
    return hf_libc()->realloc(ptr, size);
}

size_t hf_usable_size_foreign(const void *ptr)
{
    size_t size;
    const struct hf_foreign_functions *other = heaps_copy();
    if (HF_UNLIKELY(other != NULL) && other->usable_size(ptr, __builtin_return_address(0), &size))
        return size;
    const struct hf_foreign_allocator *allocator =
        instead_of_ours(ptr, __builtin_return_address(0), HF_CORRUPT_IN_MEASURE);
    if (HF_LIKELY(allocator == NULL))
        return hf_libc()->usable_size((void *)(uintptr_t)ptr);
    return hf_foreign_call_usable_size(allocator, ptr, __builtin_return_address(0));
}
