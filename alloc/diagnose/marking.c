/* SPDX-License-Identifier: BSD-2-Clause */
/* See marking.h. */
#include "alloc/diagnose/marking.h"

#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/interpreter_sites.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sampling.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/diagnose/watched.h"

#include <string.h>

const unsigned char hf_block_kinds[HF_FUNCTION_COUNT] = {
    [HF_FUNCTION_malloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_calloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_realloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_reallocarray] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_aligned_alloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_memalign] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_posix_memalign] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_valloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_pvalloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION__Znwm] = HF_BLOCK_NEW,
    [HF_FUNCTION__ZnwmRKSt9nothrow_t] = HF_BLOCK_NEW,
    [HF_FUNCTION__Znam] = HF_BLOCK_NEW_ARRAY,
    [HF_FUNCTION__ZnamRKSt9nothrow_t] = HF_BLOCK_NEW_ARRAY,
    [HF_FUNCTION__ZnwmSt11align_val_t] = HF_BLOCK_NEW_ALIGNED,
    [HF_FUNCTION__ZnwmSt11align_val_tRKSt9nothrow_t] = HF_BLOCK_NEW_ALIGNED,
    [HF_FUNCTION__ZnamSt11align_val_t] = HF_BLOCK_NEW_ARRAY_ALIGNED,
    [HF_FUNCTION__ZnamSt11align_val_tRKSt9nothrow_t] = HF_BLOCK_NEW_ARRAY_ALIGNED,
    [HF_FUNCTION_PyMem_RawMalloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_PyMem_RawCalloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_PyMem_RawRealloc] = HF_BLOCK_MALLOC,
    [HF_FUNCTION_PyMem_Malloc] = HF_BLOCK_PYTHON_MEM,
    [HF_FUNCTION_PyMem_Calloc] = HF_BLOCK_PYTHON_MEM,
    [HF_FUNCTION_PyMem_Realloc] = HF_BLOCK_PYTHON_MEM,
    [HF_FUNCTION_PyObject_Malloc] = HF_BLOCK_PYTHON_OBJECT,
    [HF_FUNCTION_PyObject_Calloc] = HF_BLOCK_PYTHON_OBJECT,
    [HF_FUNCTION_PyObject_Realloc] = HF_BLOCK_PYTHON_OBJECT,
};

/* What the thread remembers of the call; NULL: nothing. */
static const struct hf_recent *find_recent(const void *ptr, struct hf_call_site call)
{
    struct hf_recent *recent;
    if (hf_recent_allocation(call, 0, &recent))
        return recent;
    if (!hf_recent_allocation(call, HF_RECENT_SECOND, &recent))
        return NULL;
    if (recent->freed == 0) {
        hf_recent_prefer(recent, ptr);
        return recent->key == hf_recent_key(call, HF_RECENT_ALLOCATION) ? recent
                                                                        : recent - HF_RECENT_SECOND;
    }
    if (--recent->freed != 0)
        return recent;
    hf_recent_take_back(call);
    return NULL;
}

/* The alignment that a block may need to have; 0: malloc's. */
static size_t alignment_of(const void *ptr, enum hf_report_function function)
{
    switch (function) {
    case HF_FUNCTION_malloc:
    case HF_FUNCTION_calloc:
    case HF_FUNCTION_realloc:
    case HF_FUNCTION_reallocarray:
    case HF_FUNCTION__Znwm:
    case HF_FUNCTION__Znam:
    case HF_FUNCTION__ZnwmRKSt9nothrow_t:
    case HF_FUNCTION__ZnamRKSt9nothrow_t:
    case HF_FUNCTION_hf_malloc:
    case HF_FUNCTION_hf_realloc:
        return 0;
    default:
        return (size_t)(uintptr_t)ptr & -(size_t)(uintptr_t)ptr;
    }
}

/* A guarded sample instead of ptr, counted, for a site whose blocks all get one; NULL: none now. */
static void *moved_to_sampled(void *ptr, size_t size, struct hf_site site, struct hf_call_site call)
{
    if (HF_LIKELY((site.deep & HF_SITE_SAMPLED) == 0) || !hf_sampling_is_possible() ||
        hf_is_watched())
        return NULL;
    void *sampled = hf_guarded_allocate(alignment_of(ptr, call.function), size, site,
                                        (enum hf_block_kind)hf_block_kinds[call.function]);
    if (sampled == NULL)
        return NULL;
    (void)hf_count(site.object, HF_REPORT_ALLOCATED, size);
    memcpy(sampled, ptr, size);
    hf_plain_free(ptr);
    return sampled;
}

void *hf_block_mark(void *ptr, size_t capacity, size_t size, struct hf_call_site call)
{
    if (HF_UNLIKELY(hf_report_header() == NULL))
        hf_report_begin();
    const size_t slack = capacity - HF_FOOTER - size;
    const struct hf_recent *recent = find_recent(ptr, call);
    if (recent != NULL) {
        hf_footer_write_live(ptr, capacity, recent->base, slack);
        hf_count_again(recent->pair, size);
        return ptr;
    }
    const struct hf_site site = hf_site_of(call.caller, call.function);
    const enum hf_block_kind kind = (enum hf_block_kind)hf_block_kinds[call.function];
    uint32_t number = site.number, without = 0;
    if (HF_UNLIKELY(site.deep != 0)) {
        void *sampled = moved_to_sampled(ptr, size, site, call);
        if (sampled != NULL)
            return sampled;
        number = hf_stack_site(site.number, &without);
    }
    if (HF_UNLIKELY(hf_interpreter_now != 0))
        number = hf_interpreter_site(number);
    hf_footer_write_live(ptr, capacity, hf_footer_base(number, kind), slack);
    struct hf_report_pair *pair = hf_count(site.object, HF_REPORT_ALLOCATED, size);
    if (pair == NULL || site.number == 0)
        return ptr;
    if (HF_LIKELY(site.deep == 0)) {
        hf_recent_allocated(call, number, kind, pair);
        /* The site may have become deep before it was remembered. */
        if (HF_UNLIKELY(hf_site_of(call.caller, call.function).deep != 0))
            hf_recent_take_back(call);
    } else if (without != 0 && (site.deep & HF_SITE_SAMPLED) == 0) {
        hf_recent_allocated_for(call, hf_interpreter_site(site.number), kind, pair, without);
    }
    return ptr;
}
