/* What a profile has: sums over its samples, for the tests of this directory. */
#ifndef HOMEFREE_TESTS_ALLOC_PROFILE_LOOKING_H
#define HOMEFREE_TESTS_ALLOC_PROFILE_LOOKING_H

#include "death.h"

#include <homefree/homefree.h>

/* At this rate, all blocks of 64 bytes and more are samples. */
enum { EVERY = 1, LARGE_ENOUGH = 64 };

struct looked {
    const void *block; /* whose sample is looked for; NULL: of any */
    size_t samples;
    uint64_t bytes; /* of the last one */
    double weight_bytes, weight_blocks;
    struct hf_profile_sample last;
};

static inline int look_at(const struct hf_profile_sample *sample, void *context)
{
    struct looked *looked = context;
    if (looked->block != NULL && sample->block != looked->block)
        return 0;
    must(sample->bytes != 0 && sample->weight_blocks >= 1 && sample->object != NULL);
    looked->samples++;
    looked->bytes = sample->bytes;
    looked->weight_bytes += sample->weight_bytes;
    looked->weight_blocks += sample->weight_blocks;
    looked->last = *sample;
    return 0;
}

static inline struct looked look_for(const void *block)
{
    struct looked looked = {.block = block};
    must(hf_profile_each(look_at, &looked) == 0);
    return looked;
}

#endif
