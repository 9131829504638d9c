/*
 * See core_table.h. Owns the pointer.
 */
#include "satellites/core_table.h"

union hf_core_table hf_core_table HF_SEALED;

void hf_core_begin(const void *core)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    hf_core_table.it = core;
    hf_seal_close(&seal);
}
