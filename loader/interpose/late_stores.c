/*
 * Owns the list of slots. It changes under the loader's lock (lock.h); `count` is read without. In
 * a forked child no other thread is left, so one last look there, before anybody can load, ends it.
 */
#include "loader/interpose/late_stores.h"

#include "loader/interpose/slot_writes.h"

#include <pthread.h>
#include <stdatomic.h>

/* What comes when the list is full is looked at by nobody: more than any process has shown, which
 * loads homefree with threads running and so many slots still lazy. */
enum { LATE_MAX = 2048 };
static struct late {
    const struct link_map *map;
    void **slot;
    void *stub, *original;
} list[LATE_MAX];
static atomic_size_t count;
static bool alone;

void hf_late_expect(const struct link_map *map, void **slot, void *stub, void *original)
{
    if (hf_patch_is_alone() || count == LATE_MAX)
        return;
    list[count] = (struct late){map, slot, stub, original};
    count++;
}

bool hf_late_any(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed) != 0;
}

/* Whether the slot is still memory that a slot can be. The object may be another by now, loaded
 * where the first one was; an original that is stored there is a slot of its own, or as good. */
static bool is_slot(const struct late *late, struct hf_object *object)
{
    const uintptr_t at = (uintptr_t)late->slot;
    if (object->map == NULL || hf_dynlink_find(late->slot) != object->map)
        return false;
    return hf_object_writable(object, at) && at - object->relro_start >= object->relro_size;
}

size_t hf_late_look(void)
{
    size_t kept = 0, put_back = 0;
    struct hf_object object = {.map = NULL};
    const struct link_map *last = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct late *late = &list[i];
        /* An object's slots lie beside each other in the list. */
        if (late->map != last) {
            last = late->map;
            const struct link_map *now = hf_dynlink_find(late->slot);
            object.map = NULL;
            if (now == last && hf_dynlink_open(now, &object))
                hf_object_segments(&object);
        }
        if (!is_slot(late, &object))
            continue;
        /* Another tool's value is none of ours. */
        void *expected = late->original;
        put_back += __atomic_compare_exchange_n(late->slot, &expected, late->stub, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        list[kept++] = *late;
    }
    count = alone ? 0 : kept;
    alone = false;
    return put_back;
}

static void in_child(void)
{
    alone = true;
}

void hf_late_start(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
