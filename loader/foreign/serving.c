/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; takes no lock. See serving.h.
 */
#include "loader/foreign/serving.h"

#include "loader/foreign/object_role.h"

#include <dlfcn.h>
#include <string.h>

static bool needs(const struct hf_object *object, const char *soname)
{
    for (const ElfW(Dyn) *d = object->map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && d->d_un.d_val < object->strings_size &&
            strcmp(object->strings + d->d_un.d_val, soname) == 0)
            return true;
    return false;
}

/* Returns whether the process's free() belongs to a wrapper linked against this object. A block may
 * then be the wrapper's, although this object's free() comes after libc's in load order. */
static bool is_wrapped(const struct hf_object *object)
{
    struct hf_object wrapper;
    const struct link_map *map = object->map;
    while (map->l_prev != NULL)
        map = map->l_prev;
    for (; map != NULL && map != object->map; map = map->l_next)
        if (hf_dynlink_open(map, &wrapper) && hf_object_address(&wrapper, "free") != NULL)
            return object->soname != NULL && hf_object_role(&wrapper) == HF_ROLE_ORDINARY &&
                   !hf_foreign_lives_in(map) && needs(&wrapper, object->soname);
    return false;
}

bool hf_serving_is_displaced(const struct hf_object *object)
{
    struct hf_object first;
    const struct link_map *map = object->map;
    if (!hf_object_is_early(map) || hf_object_address(object, "free") == NULL)
        return false;
    while (map->l_prev != NULL)
        map = map->l_prev;
    while (map != NULL && (!hf_dynlink_open(map, &first) || !hf_object_address(&first, "free")))
        map = map->l_next;
    return map == hf_dynlink_find(&hf_region);
}

enum hf_foreign_serves hf_serving(const struct hf_object *object)
{
    if (is_wrapped(object))
        return HF_SERVES_PROCESS;
    bool frees = hf_object_address(object, "free") != NULL;
    if ((!frees && hf_object_address(object, "_ZdlPv") == NULL) || !hf_object_is_early(object->map))
        return HF_SERVES_NOTHING;
    /* Its operators may serve C++ code, but their blocks reach this library's free() directly. */
    if (hf_serving_is_displaced(object))
        return HF_SERVES_NOTHING;
    return frees ? HF_SERVES_PROCESS : HF_SERVES_OPERATORS;
}

/* The program cannot be looked up by name, and objects loaded at program start are never
 * unloaded. */
bool hf_serving_pin(const struct hf_object *object)
{
    if (object->map->l_prev == NULL || hf_object_is_early(object->map))
        return true;
    return dlopen(hf_dynlink_name(object->map), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}
