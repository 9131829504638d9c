/*
 * The loops behind "malloc+free pair": nothing but the calls, an array of sizes and a counter.
 * Built with -fno-builtin, so that the compiler may not drop a pair whose block is never used. The
 * blocks are not written to: that would add the same cost to every allocator, and flatter the
 * ratio.
 */
#include "work.h"

#include <stdlib.h>

void work_pairs(const size_t *sizes, size_t size_count, size_t count)
{
    for (size_t i = 0, next = 0; i < count; i++) {
        free(malloc(sizes[next]));
        next = next + 1 == size_count ? 0 : next + 1;
    }
}

void work_batches(const size_t *sizes, size_t size_count, size_t count)
{
    void *live[WORK_BATCH];
    size_t next = 0;
    for (size_t done = 0; done < count; done += WORK_BATCH) {
        for (size_t i = 0; i < WORK_BATCH; i++) {
            live[i] = malloc(sizes[next]);
            next = next + 1 == size_count ? 0 : next + 1;
        }
        for (size_t i = 0; i < WORK_BATCH; i++)
            free(live[i]);
    }
}

void *work_take(size_t size)
{
    return malloc(size);
}

void work_give(void *ptr)
{
    free(ptr);
}
