/* See marking.h. */
#include "alloc/diagnose/marking.h"

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
