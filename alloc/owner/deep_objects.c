/*
 * See deep_objects.h. Entries are written once.
 */
#include "alloc/owner/deep_objects.h"

#include <stdatomic.h>

enum { DEEP_MAX = 256 };

static struct {
    _Atomic(const struct link_map *) map;
    const void *dynamic;
} deep[DEEP_MAX];
static atomic_size_t deep_count;

bool hf_deep_has(const struct link_map *map)
{
    for (size_t i = 0; i < deep_count; i++)
        if (atomic_load_explicit(&deep[i].map, memory_order_acquire) == map &&
            deep[i].dynamic == map->l_ld)
            return true;
    return false;
}

void hf_deep_note(const struct link_map *map)
{
    if (hf_deep_has(map))
        return;
    size_t at = deep_count;
    do {
        if (at == DEEP_MAX)
            return;
    } while (!atomic_compare_exchange_weak(&deep_count, &at, at + 1));
    deep[at].dynamic = map->l_ld;
    atomic_store_explicit(&deep[at].map, map, memory_order_release);
}
