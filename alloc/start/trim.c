/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See trim.h. Foreign allocators' own functions are called without a lock of ours, and an object
 * whose functions may be called is never unloaded (owner/foreign.h).
 */
#include "alloc/start/trim.h"

#include "alloc/base/resident.h"
#include "alloc/heap/front_end.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/foreign.h"
#include "alloc/space/space_calls.h"

#include <errno.h>
#include <malloc.h>

/* 0 if nobody wants to know. */
static uint64_t resident(hf_trim_visitor *visit)
{
    return visit != NULL ? hf_resident() : 0;
}

static void tell(hf_trim_visitor *visit, void *context, struct hf_trimmed *trimmed)
{
    if (visit == NULL)
        return;
    trimmed->after = resident(visit);
    visit(trimmed, context);
}

/* Page-locked memory is the process's; what devices have is not, and they would have to be waited
 * for. Blocks that a device may still use have to be, too. */
static void trim_pinned(hf_trim_visitor *visit, void *context)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    if (hf_cuda_opened() == NULL ||
        hf_spaces_here.stats(HF_SPACE_PINNED, 0, HF_STREAM_ANY, &stats) != 0 ||
        stats.reserved <= stats.allocated || stats.pending != 0)
        return;
    struct hf_trimmed pinned = {
        .allocator = "cuda", .how = "hf_space_trim", .before = resident(visit)};
    (void)hf_spaces_here.trim(HF_SPACE_PINNED, 0, 0, NULL);
    tell(visit, context, &pinned);
}

static int trim(hf_trim_visitor *visit, void *context, bool may_wait)
{
    const int saved_errno = errno;
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL ||
            (allocator->hosted != NULL && (allocator->hosted->trim == NULL || !may_wait)))
            continue;
        struct hf_trimmed trimmed = {
            .allocator = allocator->name, .object = allocator->object, .before = resident(visit)};
        if (hf_foreign_call_trim(allocator))
            trimmed.how = allocator->trim_name;
        tell(visit, context, &trimmed);
    }
    trim_pinned(visit, context);
    struct hf_trimmed own = {.allocator = "homefree", .how = "hf_trim", .before = resident(visit)};
    const int error = hf_heap_trim();
    if (error == 0)
        tell(visit, context, &own);
    struct hf_trimmed libc = {.allocator = "libc", .how = "malloc_trim", .before = resident(visit)};
    (void)malloc_trim(0);
    tell(visit, context, &libc);
    errno = saved_errno;
    return error;
}

int hf_trim_here(hf_trim_visitor *visit, void *context)
{
    return trim(visit, context, true);
}

int hf_trim_in_call(hf_trim_visitor *visit, void *context)
{
    return trim(visit, context, false);
}
