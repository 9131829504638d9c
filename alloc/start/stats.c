/*
 * Collects the heap's statistics. Owns nothing; jemalloc refreshes its counters under its own
 * locks. Callable in any thread once the heap has started.
 */
#include "alloc/start/stats.h"

#include "alloc/base/sized.h"
#include "alloc/deleter/release.h"
#include "alloc/heap/internal.h"
#include "alloc/heap/region.h"
#include "alloc/space/pool.h"

#include <errno.h>

#define HF_ALL_ARENAS "stats.arenas.4096." /* MALLCTL_ARENAS_ALL */

static uint64_t counter(const char *name)
{
    size_t value = 0, size = sizeof value;
    return hf_heap_control(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

int hf_stats_here(struct hf_stats *out)
{
    if (out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    uint64_t epoch = 1;
    int error = hf_heap_control("epoch", NULL, NULL, &epoch, sizeof epoch);
    if (error != 0)
        return error == -EAGAIN ? error : -ENOMEM;
    unsigned arenas = 0;
    size_t arenas_size = sizeof arenas;
    hf_heap_control("opt.narenas", &arenas, &arenas_size, NULL, 0);
    /* jemalloc counts the blocks of spaces too; hf_space_stats() is for these. */
    uint64_t spaces_allocated, spaces_active;
    hf_ground_totals(&spaces_allocated, &spaces_active);
    /* Nobody asked for what caches hold, and for jemalloc's own blocks, which `metadata` counts.
     * Caches that threads use meanwhile may seem to hold more than was counted before. */
    const uint64_t held =
        counter("stats.allocated") - counter(HF_ALL_ARENAS "internal") - spaces_allocated;
    const uint64_t cached = hf_heap_cached();
    struct hf_release_counts releases = hf_release_count();
    struct hf_stats stats = {
        .region_reserved = hf_region.limit,
        .region_used = hf_region_used() - hf_pools_region(),
        .allocated = held > cached ? held - cached : 0,
        .active = counter("stats.active") - spaces_active,
        .resident = counter("stats.resident") - spaces_active,
        .metadata = counter("stats.metadata"),
        .arenas = arenas,
        .releases_live = releases.live,
        .releases_run = releases.run,
        .releases_leaked = releases.leaked,
    };
    hf_sized_copy(out, &stats, sizeof stats);
    return 0;
}
