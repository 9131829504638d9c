/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/stats.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* What the heap has, in bytes. */
static void heap(void)
{
    void *block = hf_malloc(1 << 20);
    struct hf_stats stats = {.size = sizeof stats};
    if (hf_stats(&stats) == 0) {
        printf("live %" PRIu64 ", resident at most %" PRIu64 "\n", stats.allocated, stats.resident);
        assert(stats.allocated >= 1 << 20 && stats.region_used <= stats.region_reserved);
    }
    hf_free(block);
}

/* What other allocators of the process say of themselves. */
static void show(const struct hf_other_stats *stats, void *context)
{
    (void)context;
    printf("%s in %s: live %" PRIu64 "\n", stats->allocator, stats->object, stats->live);
}

static void others(void)
{
    int error = hf_stats_of_others(show, NULL);
    assert(error == 0);
}

int main(void)
{
    heap();
    others();
    return 0;
}
