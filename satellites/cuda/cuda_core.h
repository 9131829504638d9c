/*
 * The core as the satellite knows it: its table (alloc/space/cuda_satellite.h), which is sealed.
 */
#ifndef HOMEFREE_CUDA_CORE_H
#define HOMEFREE_CUDA_CORE_H

#include "alloc/base/seal.h"
#include "alloc/space/cuda_satellite.h"

union hf_core_sealed {
    const struct hf_cuda_core *table;
    char pages[HF_SEAL_SIZE(const struct hf_cuda_core *)];
};
extern union hf_core_sealed hf_core_sealed;

static inline const struct hf_cuda_core *hf_core(void)
{
    return hf_core_sealed.table;
}

/* Once, before anything else. */
void hf_core_begin(const struct hf_cuda_core *core);

/* Whether an address lies in the heap's region. */
static inline bool hf_core_owns(const void *ptr)
{
    const struct hf_region_bounds *region = hf_core()->region;
    return (uintptr_t)ptr - region->base < region->size;
}

#endif
