/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See guard_question.h. The table only grows, and is read without a lock.
 */
#include "loader/adopt/guard_question.h"

#include "alloc/base/apart.h"
#include "alloc/base/dynlink.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/libc_heap.h"

#include <stdatomic.h>
#include <stdint.h>

enum { OBJECTS_MAX = 64 };

/* An entry counts once `count` says so, and then only becomes done. */
static struct {
    const struct link_map *map;
    uintptr_t start, end;
    _Atomic(bool) done;
} objects[OBJECTS_MAX] HF_APART;
static atomic_size_t objects_count;

bool hf_guards_add(const struct link_map *map, const void *start, const void *end)
{
    const size_t count = atomic_load_explicit(&objects_count, memory_order_relaxed);
    if (count == OBJECTS_MAX)
        return false;
    objects[count].map = map;
    objects[count].start = (uintptr_t)start;
    objects[count].end = (uintptr_t)end;
    atomic_store_explicit(&objects_count, count + 1, memory_order_release);
    return true;
}

bool hf_guards_has(const struct link_map *map)
{
    const size_t count = atomic_load_explicit(&objects_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        if (objects[i].map == map && objects[i].done)
            return true;
    return false;
}

void hf_guards_done(const struct link_map *map)
{
    const size_t count = atomic_load_explicit(&objects_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        if (objects[i].map == map)
            objects[i].done = true;
}

/* The object whose guard asks: the guard is in the object, or was put near it. */
static const struct link_map *object_of(const void *guard)
{
    const size_t count = atomic_load_explicit(&objects_count, memory_order_acquire);
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)guard - objects[i].start < objects[i].end - objects[i].start)
            return objects[i].map;
    return hf_dynlink_find(guard);
}

bool hf_adopted_elsewhere(const void *block)
{
    if (HF_LIKELY(hf_owned(block)))
        return true;
    if (block == NULL)
        return false;
    const struct hf_foreign_allocator *owner = hf_foreign_of(block);
    if (owner != NULL)
        return owner->map != object_of(__builtin_return_address(0));
    /* Either libc's or one of the calling object's own, whose pages are not recorded: because it
     * was loaded before this library, or because nothing is recorded before glibc 2.35. In the
     * latter cases it may look like libc's by chance. */
    return hf_libc_heap_holds(block) &&
           (hf_dynlink_find_fast(__builtin_return_address(0)) != NULL || hf_libc_heap_owns(block));
}
