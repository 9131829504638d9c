/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree-cuda exports: its entry (alloc/base/satellite.h), with the table that the core
 * calls. Owns nothing.
 */
#include "alloc/build_stamp.h"
#include "satellites/cuda/cuda_core.h"
#include "satellites/cuda/space/others.h"
#include "satellites/cuda/space/owners.h"
#include "satellites/cuda/space/pool.h"
#include "satellites/cuda/space/spaces.h"
#include "satellites/cuda/varena/varena.h"

static void in_child(void)
{
    hf_varenas_reset_in_child();
    hf_pools_in_child();
    hf_others_in_child();
}

static const struct hf_cuda_satellite table = {
    .spaces =
        {
            .alloc = hf_spaces_alloc,
            .free = hf_spaces_free,
            .use = hf_spaces_use,
            .of = hf_spaces_of,
            .stats = hf_spaces_stats,
            .limit = hf_spaces_limit,
            .trim = hf_spaces_trim,
            .reason = hf_spaces_reason,
            .order = hf_spaces_order,
        },
    .describe = hf_owners_describe,
    .given = hf_others_given,
    .returned = hf_owners_returned,
    .caller_of = hf_others_caller,
    .in_child = in_child,
};

static void start(void)
{
    hf_options = *hf_core()->options; /* this library's copy */
    hf_varenas_start();
    hf_owners_start();
}

HF_SATELLITE_WITH(cuda, table, start);
