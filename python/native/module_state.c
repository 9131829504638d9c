/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See module_state.h.
 */
#include "python/native/module_state.h"

#include <homefree/homefree.h>

void *homefree_grown(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return array;
    size_t doubled = *capacity * 2 + 32;
    void *grown = hf_reallocarray(array, doubled, size);
    if (grown != NULL)
        *capacity = doubled;
    return grown;
}
