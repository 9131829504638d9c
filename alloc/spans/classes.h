/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Size classes of blocks in spans: multiples of 16 to 256 bytes, then eight a doubling to 32 KiB,
 * so that at most an eighth of a block is unused; and one each for 1 KiB and for a page with a
 * header, of which SQLite has most of its memory. Class 0 is for blocks of no bytes, whose pages
 * nobody may touch. Constants only.
 */
#ifndef HOMEFREE_ALLOC_SPANS_CLASSES_H
#define HOMEFREE_ALLOC_SPANS_CLASSES_H

#include "alloc/spans/entry.h"

enum {
    HF_LG_LARGEST = HF_LG_UNIT,
    HF_LARGEST = 1 << HF_LG_LARGEST, /* the largest block in a span */
    HF_LG_GRAIN = 4,
    HF_GRAIN = 1 << HF_LG_GRAIN,
    HF_CLASSES = 1 + 256 / HF_GRAIN + 8 * (HF_LG_LARGEST - 8) + 2,
    HF_CLASS_NOTHING = 0
};
_Static_assert(HF_LARGEST == HF_FAST_MAX, "the fast paths are those of spans");

/* The class of a size of at most HF_LARGEST, by the size in grains, rounded up. */
extern const uint8_t hf_class_table[HF_LARGEST / HF_GRAIN + 1]
    __attribute__((visibility("hidden")));
static inline unsigned hf_class_of(size_t size)
{
    return hf_class_table[(size + HF_GRAIN - 1) >> HF_LG_GRAIN];
}

/* What a block of a class can hold: 0 for class 0, whose blocks have HF_GRAIN bytes,
 * and for HF_CLASSES. */
extern const size_t hf_class_sizes[HF_CLASSES + 1] __attribute__((visibility("hidden")));

struct hf_class {
    uint64_t reciprocal; /* 2^64 / the size, rounded up */
    uint32_t size;       /* of a block with what follows it */
    uint8_t stack;       /* freed blocks that a local heap keeps at hand */
    uint8_t units;       /* of a span, at most HF_UNITS_MOST */
};
enum { HF_UNITS_MOST = 8 };
extern const struct hf_class hf_classes[HF_CLASSES] __attribute__((visibility("hidden")));

/* The class of blocks of at least `size` bytes at multiples of `alignment`, a power of two;
 * HF_CLASSES if no class has such blocks, or if the table of classes says so. Blocks lie at
 * multiples of the largest power of two, up to a page, that divides their size (span.h); not far
 * from any class there is one of twice the alignment. */
static inline __attribute__((always_inline)) unsigned
hf_class_aligned(const uint8_t *table, size_t alignment, size_t size)
{
    enum { MOST = 4096 };
    if (alignment > MOST || size > HF_LARGEST)
        return HF_CLASSES;
    if (size == 0 && alignment > HF_GRAIN)
        size = 1;
    size = (size + alignment - 1) & -alignment;
    if (size > HF_LARGEST)
        return HF_CLASSES;
    unsigned class = table[(size + HF_GRAIN - 1) >> HF_LG_GRAIN];
    while ((hf_class_sizes[class] & (alignment - 1)) != 0)
        class ++;
    return class;
}

#endif
