/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the core calls of this satellite. Owns nothing.
 */
#include "alloc/base/satellite.h"
#include "alloc/build_stamp.h"
#include "satellites/adopt/adopt_core.h"
#include "satellites/adopt/adopt_file.h"
#include "satellites/adopt/private/lent_copy.h"
#include "satellites/adopt/private/private_copy.h"

static const struct hf_adopt_functions here = {
    .adopt_file = hf_adopt_file_for,
    .private_copy = hf_private_copy_make,
    .private_remove = hf_private_copy_remove,
    .copy_directory = hf_copy_directory,
    .private_lend = hf_lent_add,
    .private_reuse = hf_lent_reuse,
    .lent_ended = hf_lent_ended,
    .lent_common = hf_lent_common,
    .lent_entered = hf_lent_entered,
};

static const void *begin_satellite(const void *core)
{
    return hf_core_begin(core, NULL) ? &here : NULL;
}

HF_SATELLITE(adopt, begin_satellite);
