/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See core_table.h. Owns the pointer, and what is known of its beginning, which the core's lock
 * guards.
 */
#include "satellites/core_table.h"

union hf_core_table hf_core_table HF_SEALED;

/* A child that was forked in the middle begins again. */
bool hf_core_begin(const void *core, void (*start)(void))
{
    static bool prepared;
    static const void *begun;
    struct hf_seal seal;
    if (begun == core)
        return true;
    if (!prepared)
        hf_seal_prepare();
    prepared = true;
    if (!hf_seal_open(&seal))
        return false;
    hf_core_table.it = core;
    hf_seal_close(&seal);
    if (start != NULL)
        start();
    if (begun == NULL && !hf_seal_start_satellite())
        return false;
    begun = core;
    return true;
}
