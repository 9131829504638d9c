/* SPDX-License-Identifier: BSD-2-Clause */
/* See guarded_samples_hosted.h. */
#include "alloc/diagnose/guarded_samples_hosted.h"

#include "alloc/base/dynlink.h"
#include "alloc/diagnose/debug_heap.h"
#include "alloc/diagnose/guarded_samples.h"

static void take_back(void *ptr, const void *caller)
{
    hf_guarded_free(ptr, HF_NOTHING_STATED, (struct hf_call_site){HF_FUNCTION_hf_free, caller});
}

static void *resize(void *ptr, size_t size, const void *caller)
{
    return hf_debug_heap_resize(ptr, size, (struct hf_call_site){HF_FUNCTION_hf_realloc, caller});
}

static size_t measure(const void *ptr, const void *caller)
{
    return hf_guarded_measure(ptr, (struct hf_call_site){HF_FUNCTION_malloc_usable_size, caller});
}

static void describe(const void *ptr, struct hf_owner *owner)
{
    owner->kind = HF_OWNER_HEAP;
    owner->block_size = hf_guarded_block(ptr, &owner->block);
    owner->allocator = "homefree";
    owner->object = hf_dynlink_name(hf_dynlink_find(&hf_region));
}

const struct hf_hosted hf_guarded_hosted = {take_back, resize, measure, describe, false, NULL};
