/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree-background exports: its entry (alloc/base/satellite.h), with the table that the
 * core calls. Owns nothing.
 */
#include "alloc/base/satellite.h"
#include "alloc/build_stamp.h"
#include "satellites/background/background_core.h"
#include "satellites/background/background_thread.h"
#include "satellites/background/pressure_watches.h"

static const struct hf_background_functions table = {
    .start = hf_background_thread_start,
    .left = hf_background_thread_left,
    .pressure_begin = hf_watches_begin,
    .pressure_wait = hf_watches_wait,
    .pressure_cancel = hf_watches_cancel,
    .pressure_end = hf_watches_end,
};

static const void *begin(const void *core)
{
    return hf_core_begin(core, NULL) ? &table : NULL;
}

HF_SATELLITE(background, begin);
