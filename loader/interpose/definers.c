/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing lasting but the serving object, which is looked up once, without a lock. See
 * definers.h.
 */
#include "loader/interpose/definers.h"

#include "alloc/base/libc_functions.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "loader/foreign/known_allocators.h"
#include "loader/foreign/object_role.h"

#include <stddef.h>

const struct link_map *hf_serving_object(const struct link_map **libc)
{
    static const struct link_map *known_serving, *known_libc;
    static _Atomic(bool) known;
    const struct link_map *first[HF_NAMESPACES_MAX];
    struct hf_object object;
    if (!known && hf_dynlink_namespaces(first) != 0) {
        const struct link_map *serving = NULL, *map = first[0];
        for (; map != NULL; map = map->l_next) {
            if (!hf_dynlink_open(map, &object))
                continue;
            if (hf_object_is_libc(&object))
                break;
            if (serving == NULL && hf_object_address(&object, "free") != NULL)
                serving = map;
        }
        known_serving = map != NULL && serving != hf_dynlink_find(&hf_region) ? serving : NULL;
        known_libc = map;
        known = true;
    }
    *libc = known_libc;
    return known_serving;
}

bool hf_program_serves(void)
{
    const struct link_map *libc, *serving = hf_serving_object(&libc);
    return serving != NULL && serving->l_prev == NULL;
}

/* Who must define a name that belongs to an allocator's interface, or that any object may use for a
 * function of its own: 1 more than the known allocator, where HF_ALLOCATOR_COUNT stands for libc
 * and all of them; 0: anybody. */
#define HF_ALLOCATOR_ANY HF_ALLOCATOR_COUNT
static const unsigned char definers[HF_ROUTED_COUNT] = {
#define HF_DEFINER(name, id) [HF_ROUTED_##name] = 1 + HF_ALLOCATOR_##id,
#include "shim/functions.def"
};

static bool exports(const struct hf_object *object, const char *name)
{
    return name == NULL || hf_object_symbol(object, name[0] == '*' ? name + 1 : name) != NULL;
}

/* Returns whether the object exports the functions of that allocator, not just one function of that
 * name. HF_ALLOCATOR_COUNT stands for any known allocator. */
static bool exports_allocator(const struct hf_object *object, enum hf_allocator allocator)
{
    for (size_t i = 0; i < hf_allocator_calls_count; i++) {
        const struct hf_allocator_calls *calls = &hf_allocator_calls[i];
        if ((allocator == HF_ALLOCATOR_COUNT || calls->allocator == allocator) &&
            exports(object, calls->marker) && exports(object, calls->realloc) &&
            exports(object, calls->usable_size))
            return true;
    }
    return false;
}

bool hf_name_is_reserved(enum hf_routed function)
{
    return definers[function] == 0;
}

bool hf_function_is_known(enum hf_routed function, const void *address)
{
    struct hf_object object;
    if (definers[function] == 0)
        return true;
    const struct link_map *map = hf_dynlink_find(address);
    if (map == NULL || !hf_dynlink_open(map, &object))
        return false;
    const enum hf_allocator allocator = definers[function] - 1U;
    return exports_allocator(&object, allocator) ||
           (allocator == HF_ALLOCATOR_ANY &&
            (hf_object_is_libc(&object) || (hf_foreign_lives_in(map) && exports(&object, "free"))));
}

/* Whether every object's free() is this library's. */
static bool serves_process(void)
{
    const struct link_map *libc;
    return hf_whole_process && hf_serving_object(&libc) == NULL && libc != NULL;
}

bool hf_operator_takes_all(enum hf_routed function, const void *original)
{
    struct hf_object object;
    if (!hf_routed_is_operator(function) || !serves_process())
        return false;
    const struct link_map *map = hf_dynlink_find(original);
    return map != NULL && !hf_foreign_lives_in(map) && hf_dynlink_open(map, &object) &&
           !exports_allocator(&object, HF_ALLOCATOR_COUNT);
}
