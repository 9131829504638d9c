/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays that grow by one element, to twice their size where they are full. No state; any thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_GROWN_H
#define HOMEFREE_LOADER_COMMAND_GROWN_H

#include <stdlib.h>

/* Makes room for one element more in an array that has `count` and grew here alone. Returns the
 * array, which may have moved; NULL without memory, and `array` is then as it was. */
static inline void *hf_grown(void *array, size_t count, size_t size)
{
    if ((count & (count - 1)) != 0)
        return array;
    return reallocarray(array, count == 0 ? 1 : count * 2, size);
}

#endif
