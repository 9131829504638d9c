/*
 * See guard_question.h. Owns nothing.
 */
#include "loader/adopt/guard_question.h"

#include "alloc/base/dynlink.h"
#include "alloc/heap/internal.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/libc_heap.h"

bool hf_adopted_elsewhere(const void *block)
{
    if (HF_LIKELY(hf_owned(block)))
        return true;
    if (block == NULL)
        return false;
    const struct hf_foreign_allocator *owner = hf_foreign_of(block);
    if (owner != NULL)
        return owner->map != hf_dynlink_find(__builtin_return_address(0));
    /* Either libc's or the calling object's own, from before its pages were recorded. */
    return hf_libc_heap_holds(block);
}
