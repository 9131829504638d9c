/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; takes no lock. See object_role.h.
 */
#include "loader/foreign/object_role.h"

#include "alloc/base/satellite.h"

/* Inlined with each prefix, and ends at the first letter for most names. */
static inline __attribute__((always_inline)) bool starts_with(const char *s, const char *prefix)
{
    while (*prefix != '\0')
        if (*s++ != *prefix++)
            return false;
    return true;
}

bool hf_is_cxx_runtime(const char *soname)
{
    return starts_with(soname, "libstdc++.so.") || starts_with(soname, "libc++");
}

enum hf_object_role hf_object_role(const struct hf_object *object)
{
    const char *soname = object->soname != NULL ? object->soname : "";
    if (starts_with(soname, "libc.so.") || hf_is_cxx_runtime(soname))
        return HF_ROLE_RUNTIME;
    if (starts_with(soname, "ld-linux") || starts_with(soname, "ld64.so"))
        return HF_ROLE_LINKER;
    if (starts_with(soname, "linux-vdso"))
        return HF_ROLE_NOTHING;
    if (hf_satellite_is_soname(soname))
        return HF_ROLE_SATELLITE;
    if (hf_object_symbol(object, "hf_instance_record") != NULL)
        return HF_ROLE_HOMEFREE;
    return HF_ROLE_ORDINARY;
}

bool hf_object_is_libc(const struct hf_object *object)
{
    return object->soname != NULL && starts_with(object->soname, "libc.so.");
}

struct hf_definer hf_definer_of(const void *function)
{
    struct hf_object object;
    struct hf_definer definer = {.map = hf_dynlink_find(function)};
    if (definer.map != NULL && hf_dynlink_open(definer.map, &object))
        definer.runtime = hf_object_role(&object) == HF_ROLE_RUNTIME;
    return definer;
}

bool hf_object_is_early(const struct link_map *wanted)
{
    struct hf_object object;
    bool found = false;
    for (const struct link_map *map = hf_dynlink_first(); map != NULL; map = map->l_next) {
        if (hf_dynlink_open(map, &object) && hf_object_is_libc(&object))
            return found;
        found |= map == wanted;
    }
    return false;
}
