/*
 * The heap's numbers, from jemalloc's statistics, and where blocks may start. Owns nothing;
 * jemalloc refreshes its counters under its own locks. Any thread, once the heap has started.
 */
#include "alloc/jemalloc/seam.h"

#include <errno.h>

/* Of fast_path.h: jemalloc's mallctl(3), which works in a thread that has no data and can have
 * none, and returns 0 or a negative errno, -EAGAIN if another thread's fork takes long; bytes that
 * threads' caches hold, 0 while the gate is closed; and what jemalloc counts for all grounds, bytes
 * in small blocks and in their pages. */
int hf_heap_control(const char *name, void *out, size_t *out_size, void *in, size_t in_size);
uint64_t hf_heap_cached(void);
void hf_ground_totals(uint64_t *allocated, uint64_t *active);

#define HF_ALL_ARENAS "stats.arenas.4096." /* MALLCTL_ARENAS_ALL */

static uint64_t counter(const char *name)
{
    size_t value = 0, size = sizeof value;
    return hf_heap_control(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

int hf_heap_count(struct hf_heap_numbers *out)
{
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
    *out = (struct hf_heap_numbers){
        .allocated = held > cached ? held - cached : 0,
        .active = counter("stats.active") - spaces_active,
        .resident = counter("stats.resident") - spaces_active,
        .metadata = counter("stats.metadata"),
        .arenas = arenas,
    };
    return 0;
}

/* Large blocks start in pages of their own. */
uintptr_t hf_heap_next(uintptr_t address)
{
    const uintptr_t least = 8, page = (uintptr_t)1 << HF_LG_PAGE;
    return hf_heap_room((const void *)address) != 0 ? address + least : (address & -page) + page;
}
