/* See marking.h. */
#include "alloc/diagnose/marking.h"

#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/sampled.h"
#include "alloc/diagnose/sampling.h"

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
};

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

void *hf_block_mark_deep(void *ptr, size_t size, struct hf_call_site call)
{
    const struct hf_site site = hf_site_of(call.caller, call.function);
    hf_count(site.object, HF_REPORT_ALLOCATED, size);
    void *sampled = (site.deep & HF_SITE_SAMPLED) != 0 && hf_sampling_is_possible()
                        ? hf_sampled_allocate(alignment_of(ptr, call.function), size, site,
                                              (enum hf_block_kind)hf_block_kinds[call.function])
                        : NULL;
    if (sampled != NULL) {
        memcpy(sampled, ptr, size);
        hf_plain_free(ptr);
        return sampled;
    }
    const size_t room = hf_heap_room(ptr);
    hf_trailer_write(ptr, room,
                     (struct hf_trailer){hf_stack_site(site.number),
                                         (enum hf_block_kind)hf_block_kinds[call.function],
                                         hf_trailer_slack(room, size)});
    return ptr;
}
