/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies at an address of the region, by its entry alone. No lock; any thread, for itself or for
 * the debug heap (diagnose/small_blocks.h). What is read may change meanwhile, unless the
 * caller has the block.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LOOKUP_H
#define HOMEFREE_ALLOC_SPANS_LOOKUP_H

#include "alloc/heap/region.h"
#include "alloc/spans/classes.h"
#include "alloc/spans/large.h"

/* Whether this copy has an entry for the address: not in a copy that forwards. */
static inline bool hf_has_entry(const void *ptr)
{
    return (uintptr_t)ptr - hf_region_here.base < hf_region_here.size;
}

/* Whether a small block that is not empty starts there, live or not: its class, and its size. */
static inline __attribute__((always_inline)) bool hf_small_at(const void *ptr, size_t *class,
                                                              size_t *size)
{
    uint8_t *state;
    if (HF_UNLIKELY(!hf_has_entry(ptr)))
        return false;
    const struct hf_entry *entry = hf_entry_of(ptr);
    if (HF_UNLIKELY(!hf_entry_has_span(entry)) ||
        HF_UNLIKELY(!hf_entry_state(entry, ptr, &state)) ||
        HF_UNLIKELY(__atomic_load_n(state, __ATOMIC_RELAXED) == HF_NONE))
        return false;
    *class = entry->class;
    *size = hf_class_sizes[*class];
    return HF_LIKELY(*size != 0);
}

#endif
