/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one list of the size classes, from which the compiler makes tables. Macros only.
 */
#ifndef HOMEFREE_ALLOC_SPANS_CLASS_LIST_H
#define HOMEFREE_ALLOC_SPANS_CLASS_LIST_H

/* Calls X with the number of each class, the size of the one before, and its own. */
#define HF_SEVEN_CLASSES(X, first, base, step)               \
    X((first), (base), (base) + (step))                      \
    X((first) + 1, (base) + (step), (base) + 2 * (step))     \
    X((first) + 2, (base) + 2 * (step), (base) + 3 * (step)) \
    X((first) + 3, (base) + 3 * (step), (base) + 4 * (step)) \
    X((first) + 4, (base) + 4 * (step), (base) + 5 * (step)) \
    X((first) + 5, (base) + 5 * (step), (base) + 6 * (step)) \
    X((first) + 6, (base) + 6 * (step), (base) + 7 * (step))
#define HF_EIGHT_CLASSES(X, first, base, step) \
    X((first), (base), (base) + (step))        \
    HF_SEVEN_CLASSES(X, (first) + 1, (base) + (step), step)
/* One more, for `base` bytes and a header. */
#define HF_NINE_CLASSES(X, first, base, step, with_header) \
    X((first), (base), (with_header))                      \
    X((first) + 1, (with_header), (base) + (step))         \
    HF_SEVEN_CLASSES(X, (first) + 2, (base) + (step), step)
#define HF_EACH_CLASS(X)                    \
    HF_EIGHT_CLASSES(X, 1, 0, 16)           \
    HF_EIGHT_CLASSES(X, 9, 128, 16)         \
    HF_EIGHT_CLASSES(X, 17, 256, 32)        \
    HF_EIGHT_CLASSES(X, 25, 512, 64)        \
    HF_NINE_CLASSES(X, 33, 1024, 128, 1040) \
    HF_EIGHT_CLASSES(X, 42, 2048, 256)      \
    HF_NINE_CLASSES(X, 50, 4096, 512, 4416) \
    HF_EIGHT_CLASSES(X, 59, 8192, 1024)     \
    HF_EIGHT_CLASSES(X, 67, 16384, 2048)
_Static_assert(HF_CLASSES == 67 + 8 && HF_GRAIN == 16, "each class has a row");

/* The table of classes by size in grains (hf_class_of). */
#define HF_CLASS_RANGE(number, before, bytes) \
    [(before) / HF_GRAIN + 1 ...(bytes) / HF_GRAIN] = (number),
#define HF_CLASS_TABLE                                        \
    {                                                         \
        [0] = HF_CLASS_NOTHING, HF_EACH_CLASS(HF_CLASS_RANGE) \
    }

#endif
