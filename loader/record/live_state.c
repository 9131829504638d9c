/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_state.h.
 */
#include "loader/record/live_state.h"

#include "alloc/base/options.h"
#include "alloc/heap/instance.h"
#include "alloc/owner/foreign.h"
#include "alloc/spans/heaps.h"
#include "loader/interpose/stubs.h"
#include "loader/satellites/profile_api.h"

_Static_assert(HF_FOREIGN_MAX < 256, "a page's number is a byte");

struct hf_live_trim hf_live_trim;

HF_API extern const struct hf_live_state hf_live_state;
const struct hf_live_state hf_live_state = {
    .magic = HF_LIVE_MAGIC,
    .version = HF_LIVE_VERSION,
    .size = sizeof(struct hf_live_state),
    .route = &hf_options.route,
    .instance_state = offsetof(struct hf_instance, state),
    .instance_is_heap = HF_INSTANCE_HEAP,
    .instance_region = offsetof(struct hf_instance, region_size),
    .stubs = &hf_stubs_live,
    .foreign = &hf_foreign_live,
    .blocks = &hf_blocks_live,
    .profile = &hf_profile_live,
    .trim = &hf_live_trim,
};
