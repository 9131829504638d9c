/*
 * See cuda_core.h. Owns the core's table, and fills this library's copy of the options.
 */
#include "satellites/cuda/cuda_core.h"

union hf_core_sealed hf_core_sealed HF_SEALED;

void hf_core_begin(const struct hf_cuda_core *core)
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    hf_core_sealed.table = core;
    hf_seal_close(&seal);
    hf_options = *core->options;
}
