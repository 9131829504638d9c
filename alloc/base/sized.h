/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structs that cross the ABI begin with `size_t size`, which the caller sets to the size it was
 * compiled with. This helper alone implements the rule: it writes no field that the caller lacks,
 * and leaves the caller's `size` alone. Owns nothing; any thread, at any stage.
 */
#ifndef HOMEFREE_ALLOC_BASE_SIZED_H
#define HOMEFREE_ALLOC_BASE_SIZED_H

#include <stddef.h>
#include <string.h>

/* Copies our struct into the caller's, up to the caller's size. Both begin with their size. */
static inline void hf_sized_copy(void *out, const void *ours, size_t ours_size)
{
    size_t out_size;
    memcpy(&out_size, out, sizeof out_size);
    size_t size = out_size < ours_size ? out_size : ours_size;
    if (size > sizeof(size_t))
        memcpy((char *)out + sizeof(size_t), (const char *)ours + sizeof(size_t),
               size - sizeof(size_t));
}

#endif
