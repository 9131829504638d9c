/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects the heap's statistics. Owns nothing; the heap counts under its own locks. Callable in
 * any thread once the heap has started.
 */
#include "alloc/start/stats.h"

#include "alloc/base/sized.h"
#include "alloc/deleter/release.h"
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "alloc/owner/dispatch.h"
#include "alloc/owner/foreign.h"
#include "alloc/space/space_calls.h"

#include <errno.h>

int hf_stats_of_others_here(hf_other_stats_visitor *visit, void *context)
{
    const int saved_errno = errno;
    for (unsigned number = 1; number <= HF_FOREIGN_MAX; number++) {
        const struct hf_foreign_allocator *allocator = hf_foreign_at(number);
        if (allocator == NULL || allocator->hosted != NULL)
            continue;
        struct hf_other_stats stats = {.allocator = allocator->name, .object = allocator->object};
        if (hf_foreign_call_live(allocator, &stats.live))
            visit(&stats, context);
    }
    errno = saved_errno;
    return 0;
}

int hf_stats_here(struct hf_stats *out)
{
    if (out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    struct hf_heap_numbers heap;
    const int error = hf_heap_count(&heap);
    if (error != 0)
        return error;
    struct hf_release_counts releases = hf_release_count();
    struct hf_stats stats = {
        .region_reserved = hf_region.limit,
        .region_used = hf_region_used() - hf_spaces_lent(),
        .allocated = heap.allocated,
        .active = heap.active,
        .resident = heap.resident,
        .metadata = heap.metadata,
        .arenas = heap.arenas,
        .releases_live = releases.live,
        .releases_run = releases.run,
        .releases_leaked = releases.leaked,
    };
    hf_sized_copy(out, &stats, sizeof stats);
    return 0;
}
