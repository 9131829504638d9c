/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Comparisons for sorting, as strcmp(3) returns them; the first that is not 0 decides:
 *
 *     return hf_order_numbers(one->size, other->size) ?: hf_order_texts(one->name, other->name);
 *
 * Owns nothing.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_ORDER_H
#define HOMEFREE_LOADER_COMMAND_REPORT_ORDER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int hf_order_numbers(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

/* NULL comes first. */
static inline int hf_order_texts(const char *one, const char *other)
{
    if (one == NULL || other == NULL)
        return (one != NULL) - (other != NULL);
    return strcmp(one, other);
}

#endif
