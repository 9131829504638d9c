/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arrays that grow, and the order of addresses, for the tables of this directory.
 *
 * Owns: nothing; the elements are their owner's, from malloc. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_ARRAYS_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_ARRAYS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more element of `size` bytes behind the first `count`. `array` points to the
 * pointer to them, and `capacity` says how many there may be. Result: 0, or -ENOMEM: nothing
 * changed.
 */
static inline int hf_array_more(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return 0;
    const size_t wanted = *capacity * 2 + 64;
    void *elements;
    memcpy(&elements, array, sizeof elements);
    elements = reallocarray(elements, wanted, size);
    if (elements == NULL)
        return -ENOMEM;
    memcpy(array, &elements, sizeof elements);
    *capacity = wanted;
    return 0;
}

/* For qsort() and bsearch() of addresses. */
static inline int hf_array_by_address(const void *left, const void *right)
{
    const uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return one < other ? -1 : one > other;
}

#endif
