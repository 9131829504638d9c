/*
 * Owns the list of slots. It changes under the loader's lock (lock.h); `count` is read without. In
 * a forked child no other thread is left, so one last look there, before anybody can load, ends it.
 */
#include "late.h"

#include <pthread.h>
#include <stdatomic.h>

/* What comes when the list is full is looked at by nobody: more than any process has shown, which
 * loads homefree with threads running and so many slots still lazy. */
enum { LATE_MAX = 2048 };
static struct late {
    const struct link_map *map;
    const void *dynamic; /* with the map: the object is the same, or the same file again */
    void **slot;
    void *stub, *original;
} list[LATE_MAX];
static atomic_size_t count;

/* From glibc 2.32 on; weak, so that older ones load us. */
extern char hf_libc_single_threaded __asm__("__libc_single_threaded")
    __attribute__((weak, visibility("default")));

void hf_late_expect(const struct link_map *map, void **slot, void *stub, void *original)
{
    if ((&hf_libc_single_threaded != NULL && hf_libc_single_threaded) || count == LATE_MAX)
        return;
    list[count] = (struct late){map, map->l_ld, slot, stub, original};
    count++;
}

bool hf_late_any(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed) != 0;
}

static bool is_loaded(const struct late *late)
{
    return hf_dynlink_find(late->slot) == late->map && late->map->l_ld == late->dynamic;
}

size_t hf_late_look(void)
{
    size_t kept = 0, put_back = 0;
    bool loaded = false;
    for (size_t i = 0; i < count; i++) {
        const struct late *late = &list[i];
        /* An object's slots lie beside each other in the list. */
        if (i == 0 || late->map != list[i - 1].map)
            loaded = is_loaded(late);
        if (!loaded)
            continue;
        /* Another tool's value is none of ours. */
        void *expected = late->original;
        put_back += __atomic_compare_exchange_n(late->slot, &expected, late->stub, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        list[kept++] = *late;
    }
    count = kept;
    return put_back;
}

static void in_child(void)
{
    (void)hf_late_look();
    count = 0;
}

__attribute__((constructor(101))) static void construct(void)
{
    pthread_atfork(NULL, NULL, in_child);
}
