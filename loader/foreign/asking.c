/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the function that enables the foreign-allocator lookup; it belongs to routing, a higher
 * layer. Sealed; no lock. See asking.h.
 */
#include "loader/foreign/asking.h"

#include "alloc/base/seal.h"

static HF_SEALED_UNION(void (*)(void), begin) table HF_SEALED;

void hf_asking_offer(void (*begin)(void))
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.begin = begin;
    hf_seal_close(&seal);
}

void hf_asking_begin(void)
{
    if (table.begin != NULL)
        table.begin();
}
