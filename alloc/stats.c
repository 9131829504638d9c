/*
 * Statistics. Owns nothing; jemalloc's counters are refreshed under its own locks.
 */
#include "instance.h"
#include "region.h"
#include "sized.h"

#include <errno.h>
#include <hf_jemalloc.h>

static uint64_t counter(const char *name)
{
    size_t value = 0, size = sizeof value;
    return hf_je_mallctl(name, &value, &size, NULL, 0) == 0 ? value : 0;
}

int hf_stats(struct hf_stats *out)
{
    if (out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    hf_heap_start();
    const struct hf_instance_functions *other = hf_instance_forward();
    if (other != NULL) {
        int result = other->stats(out);
        struct hf_stats forwards = {.forwards = 1};
        if (result == 0 &&
            out->size >= offsetof(struct hf_stats, forwards) + sizeof forwards.forwards)
            out->forwards = forwards.forwards;
        return result;
    }
    /* A thread without data of its own gets it here, not inside jemalloc, where it could not fail.
     */
    hf_free(hf_malloc(1));
    uint64_t epoch = 1;
    size_t epoch_size = sizeof epoch;
    hf_je_mallctl("epoch", &epoch, &epoch_size, &epoch, sizeof epoch);
    unsigned arenas = 0;
    size_t arenas_size = sizeof arenas;
    hf_je_mallctl("opt.narenas", &arenas, &arenas_size, NULL, 0);
    struct hf_stats stats = {
        .region_reserved = hf_region.size,
        .region_used = hf_region_used(),
        .allocated = counter("stats.allocated"),
        .active = counter("stats.active"),
        .resident = counter("stats.resident"),
        .metadata = counter("stats.metadata"),
        .arenas = arenas,
    };
    hf_sized_copy(out, &stats, sizeof stats);
    return 0;
}
