/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the list of slots. It changes under the loader's lock (loader_lock.h); `count` is read
 * without it. A forked child has only one thread, so a single check in the child, before anything
 * can be loaded, empties the list.
 */
#include "loader/interpose/late_stores.h"

#include "alloc/base/apart.h"
#include "loader/interpose/slot_writes.h"

#include <pthread.h>
#include <stdatomic.h>

/* Slots beyond this limit are not checked. No process that loads homefree with running threads and
 * this many unresolved slots has been seen. */
enum { LATE_MAX = 2048 };
static struct late {
    const struct link_map *map;
    void **slot;
    void *stub, *original;
} list[LATE_MAX] HF_APART;
static atomic_size_t count;
static bool forked;

void hf_late_expect(const struct link_map *map, void **slot, void *stub, void *original)
{
    if (hf_write_is_single_threaded() || count == LATE_MAX)
        return;
    list[count] = (struct late){map, slot, stub, original};
    count++;
}

bool hf_late_any(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed) != 0;
}

/* Returns whether the address still lies in memory that can hold a slot. Another object may be
 * loaded there by now; an original found in it is either in a slot of its own or equivalent to
 * one. */
static bool is_slot(const struct late *late, struct hf_object *object)
{
    const uintptr_t at = (uintptr_t)late->slot;
    if (object->map == NULL || hf_dynlink_find(late->slot) != object->map)
        return false;
    return hf_object_writable(object, at) && at - object->relro_start >= object->relro_size;
}

size_t hf_late_restore(void)
{
    size_t kept = 0, put_back = 0;
    struct hf_object object = {.map = NULL};
    const struct link_map *last = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct late *late = &list[i];
        /* Slots of one object are adjacent in the list. */
        if (late->map != last) {
            last = late->map;
            const struct link_map *now = hf_dynlink_find(late->slot);
            object.map = NULL;
            if (now == last && hf_dynlink_open(now, &object))
                hf_object_segments(&object);
        }
        if (!is_slot(late, &object))
            continue;
        /* Leave values stored by other tools alone. */
        void *expected = late->original;
        put_back += __atomic_compare_exchange_n(late->slot, &expected, late->stub, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        list[kept++] = *late;
    }
    count = forked ? 0 : kept;
    forked = false;
    return put_back;
}

static void in_child(void)
{
    if (hf_late_any())
        forked = true;
}

void hf_late_start(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
