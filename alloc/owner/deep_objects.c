/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See deep_objects.h. Whoever notes an object has the loader's lock; whoever asks has none, but
 * keeps the object loaded, and the entry of a loaded object does not change.
 */
#include "alloc/owner/deep_objects.h"

#include "alloc/base/apart.h"
#include "alloc/base/dynlink.h"

#include <stdatomic.h>

enum { DEEP_MAX = 1024 };

static struct {
    _Atomic(const struct link_map *) map;
    _Atomic(const void *) dynamic;
} deep[DEEP_MAX] HF_APART;
static atomic_size_t deep_count;

static bool is(size_t entry, const struct link_map *map)
{
    return atomic_load_explicit(&deep[entry].map, memory_order_acquire) == map &&
           deep[entry].dynamic == map->l_ld;
}

bool hf_deep_any(void)
{
    return deep_count != 0;
}

bool hf_deep_has(const struct link_map *map)
{
    for (size_t i = 0; i < deep_count; i++)
        if (is(i, map))
            return true;
    return false;
}

/* Whether an entry's object is still loaded. */
static bool is_loaded(size_t entry)
{
    const struct link_map *map = hf_dynlink_find(deep[entry].dynamic);
    return map != NULL && is(entry, map);
}

void hf_deep_note(const struct link_map *map)
{
    if (hf_deep_has(map))
        return;
    size_t at = 0;
    while (at < deep_count && is_loaded(at))
        at++;
    if (at == DEEP_MAX)
        return;
    atomic_store_explicit(&deep[at].map, NULL, memory_order_release);
    deep[at].dynamic = map->l_ld;
    atomic_store_explicit(&deep[at].map, map, memory_order_release);
    if (at == deep_count)
        deep_count = at + 1;
}
