/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the malloc family makes of alignments and counts, for the plain family and the diagnosed
 * one. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_BASE_ALIGNMENT_H
#define HOMEFREE_ALLOC_BASE_ALIGNMENT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool hf_is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Rounds an alignment of memalign(3) up to a power of two, as glibc does: programs rely on it.
 * Returns 0 if it is too large. */
static inline size_t hf_round_alignment(size_t alignment)
{
    if (alignment > SIZE_MAX / 2 + 1)
        return 0;
    if (alignment < sizeof(void *))
        return sizeof(void *);
    if (hf_is_power_of_two(alignment))
        return alignment;
    return (SIZE_MAX / 2 + 1) >> (__builtin_clzl(alignment) - 1);
}

/* The size of the array that reallocarray(3) makes. False, with ENOMEM, if there is no such size.
 */
static inline bool hf_array_size(size_t count, size_t size, size_t *bytes)
{
    if (!__builtin_mul_overflow(count, size, bytes))
        return true;
    errno = ENOMEM;
    return false;
}

#endif
