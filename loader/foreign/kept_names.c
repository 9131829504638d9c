/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the names, stored one after the other; no lock. An atomic step reserves room, and the name
 * is written afterwards: a concurrent reader sees an empty name there and continues.
 */
#include "loader/foreign/kept_names.h"

#include "alloc/base/apart.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

static HF_APART char kept[16384];
static atomic_size_t kept_size;

const char *hf_keep_name(const char *name)
{
    size_t size = strlen(name) + 1;
    for (size_t at = 0; at < kept_size; at += strlen(kept + at) + 1)
        if (strcmp(kept + at, name) == 0)
            return kept + at;
    size_t at = kept_size;
    do {
        if (size > sizeof kept - at)
            return "(unnamed)";
    } while (!atomic_compare_exchange_weak(&kept_size, &at, at + size));
    return memcpy(kept + at, name, size);
}
