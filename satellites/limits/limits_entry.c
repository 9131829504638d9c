/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree-limits exports: its entry (alloc/base/satellite.h), with the table that the core
 * calls. Owns nothing.
 */
#include "alloc/base/satellite.h"
#include "alloc/build_stamp.h"
#include "satellites/limits/limits.h"
#include "satellites/limits/limits_core.h"

static const struct hf_limits_functions table = {
    .begin = hf_limits_begin,
    .add = hf_limits_add,
    .set = hf_limits_set,
    .read = hf_limits_read,
    .number = hf_limits_number,
    .each = hf_limits_each,
    .end = hf_limits_end,
};

static const void *begin(const void *core)
{
    return hf_core_begin(core, NULL) ? &table : NULL;
}

HF_SATELLITE(limits, begin);
