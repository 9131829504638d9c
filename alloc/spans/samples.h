/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Samples: blocks that a profile (homefree/profile.h) is told of. While nobody profiles, no fast
 * path has an instruction for it: malloc finds its class in a table that has every size's class.
 * While somebody does, that table has one extra class for every size, HF_CLASSES, of which no local
 * heap has blocks; so each call ends in the slow path, which counts it and takes the block of the
 * real class. A sampled block's state is HF_SAMPLED, so that its free ends in the slow path, too.
 *
 * Each local heap counts bytes down to its next sample. The number is drawn from the exponential
 * distribution, so a block of n bytes is a sample with the probability 1 - exp(-n / mean),
 * whatever came before it.
 *
 * Owns the table, sealed. Any thread; no lock, unless stated otherwise.
 */
#ifndef HOMEFREE_ALLOC_SPANS_SAMPLES_H
#define HOMEFREE_ALLOC_SPANS_SAMPLES_H

#include "alloc/base/seal.h"
#include "alloc/spans/small.h"

struct hf_samples {
    uint8_t classes[HF_LARGEST / HF_GRAIN + 1]; /* as hf_class_table, or HF_CLASSES everywhere */
    bool on;
    bool marks; /* there may be samples, or blocks that count for a limit (limited.h); stays */
    const struct hf_sample_functions *functions; /* stay once set: samples outlive a profile */
};
union hf_samples_sealed {
    struct hf_samples it;
    char pages[HF_SEAL_SIZE(struct hf_samples)];
};
extern union hf_samples_sealed hf_samples __attribute__((visibility("hidden")));

/* The class for a fast path that hands blocks out: HF_CLASSES while blocks are counted. */
static inline unsigned hf_class_now(size_t size)
{
    return hf_samples.it.classes[(size + HF_GRAIN - 1) >> HF_LG_GRAIN];
}

static inline bool hf_samples_are_on(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_samples.it.on, __ATOMIC_RELAXED));
}

/* Takes a block and counts it, if that is as quick as it was: NULL if a slow path is due, which
 * counts by itself. The caller has seen hf_samples_are_on(). */
HF_ALWAYS_INLINE void *hf_samples_take(struct hf_local *local, unsigned class, size_t size)
{
    const int64_t left = local->sample_left - (int64_t)size;
    if (HF_UNLIKELY(left <= 0))
        return NULL;
    void *ptr = hf_small_take(local, class);
    if (HF_LIKELY(ptr != NULL))
        local->sample_left = left;
    return ptr;
}

/* Counts a block that is about to be handed out, and makes it a sample if it is its turn. Inside
 * the gate. */
void hf_samples_count_now(void *ptr, size_t size) __attribute__((cold));
static inline void hf_samples_count(void *ptr, size_t size)
{
    if (hf_samples_are_on())
        hf_samples_count_now(ptr, size);
}

/* From now on, there are blocks that count for a limit. Inside the gate. False: the system refuses
 * to make a table writable. */
bool hf_samples_expect_marks(void);
static inline bool hf_samples_have_marks(void)
{
    return HF_UNLIKELY(__atomic_load_n(&hf_samples.it.marks, __ATOMIC_ACQUIRE));
}

/* A live block is about to be freed or resized: it is no sample any more, and counts for no limit.
 * Inside the gate or not. A pointer to anything else does no harm. */
void hf_samples_end_now(const void *ptr);
static inline void hf_samples_end(const void *ptr)
{
    if (hf_samples_have_marks())
        hf_samples_end_now(ptr);
}

/* The same for each sample of which gone() says that its block is about to end. */
void hf_samples_drop(bool (*gone)(void *context, const void *ptr), void *context);

#endif
