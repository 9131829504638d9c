/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing; takes no lock. See silent.h.
 */
#include "loader/foreign/silent.h"

#include "alloc/base/dynlink.h"
#include "alloc/owner/foreign.h"
#include "loader/foreign/kept_names.h"
#include "loader/foreign/known_allocators.h"

#include <string.h>

bool hf_silent_publish(unsigned number, const struct link_map *map, const bool found[])
{
    char names[128];
    size_t length = 0;
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++) {
        const char *name = hf_allocator_name((enum hf_allocator)i);
        size_t size = strlen(name);
        if (!found[i] || length + size + 4 > sizeof names)
            continue;
        if (length != 0) {
            memcpy(names + length, " or ", 4);
            length += 4;
        }
        memcpy(names + length, name, size);
        length += size;
    }
    if (length == 0)
        return false;
    names[length] = '\0';
    struct hf_foreign_allocator allocator = {
        .name = hf_keep_name(names),
        .object = hf_keep_name(hf_dynlink_name(map)),
        .map = map,
        .shares = hf_foreign_lives_in(map), /* members of the registry */
    };
    hf_foreign_publish(number, &allocator);
    return true;
}
