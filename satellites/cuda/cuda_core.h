/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The core as the satellite knows it: its table (alloc/space/cuda_satellite.h).
 */
#ifndef HOMEFREE_SATELLITES_CUDA_CUDA_CORE_H
#define HOMEFREE_SATELLITES_CUDA_CUDA_CORE_H

#include "alloc/space/cuda_satellite.h"
#include "satellites/core_table.h"

HF_CORE_TABLE(struct hf_cuda_core)

/* Whether an address lies in the heap's region. */
static inline bool hf_core_owns(const void *ptr)
{
    const struct hf_region_bounds *region = hf_core()->region;
    return (uintptr_t)ptr - region->base < region->size;
}

#endif
