/* Whether memory was lost: run the same work many times, and see that the heap does not grow with
 * the number of times. */
#ifndef HOMEFREE_TESTS_ALLOC_GROWTH_H
#define HOMEFREE_TESTS_ALLOC_GROWTH_H

#include "heap.h"
#include "suite.h"

#include <homefree/homefree.h>

/* Runs work(context) `warm` times, then `more` times. Fails the test if the second series grows
 * live blocks and the heap's metadata by `allowed` bytes or more together. */
static inline void assert_no_growth(void (*work)(void *context), void *context, int warm, int more,
                                    uint64_t allowed)
{
    for (int i = 0; i < warm; i++)
        work(context);
    struct hf_stats before = stats_now();
    for (int i = 0; i < times(more); i++)
        work(context);
    struct hf_stats after = stats_now();
    uint64_t had = before.allocated + before.metadata, has = after.allocated + after.metadata;
    ck_assert_msg(has < had + allowed, "grew from %llu+%llu to %llu+%llu bytes",
                  (unsigned long long)before.allocated, (unsigned long long)before.metadata,
                  (unsigned long long)after.allocated, (unsigned long long)after.metadata);
}

#endif
