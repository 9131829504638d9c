/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See classes.h. The compiler makes the tables from one list of the sizes.
 */
#include "alloc/spans/classes.h"

/* Calls X with the number of each class, the size of the one before, and its own. */
#define SEVEN(X, first, base, step)                          \
    X((first), (base), (base) + (step))                      \
    X((first) + 1, (base) + (step), (base) + 2 * (step))     \
    X((first) + 2, (base) + 2 * (step), (base) + 3 * (step)) \
    X((first) + 3, (base) + 3 * (step), (base) + 4 * (step)) \
    X((first) + 4, (base) + 4 * (step), (base) + 5 * (step)) \
    X((first) + 5, (base) + 5 * (step), (base) + 6 * (step)) \
    X((first) + 6, (base) + 6 * (step), (base) + 7 * (step))
#define EIGHT(X, first, base, step)     \
    X((first), (base), (base) + (step)) \
    SEVEN(X, (first) + 1, (base) + (step), step)
/* One more, for `base` bytes and a header. */
#define NINE(X, first, base, step, with_header)    \
    X((first), (base), (with_header))              \
    X((first) + 1, (with_header), (base) + (step)) \
    SEVEN(X, (first) + 2, (base) + (step), step)
#define EACH(X)                  \
    EIGHT(X, 1, 0, 16)           \
    EIGHT(X, 9, 128, 16)         \
    EIGHT(X, 17, 256, 32)        \
    EIGHT(X, 25, 512, 64)        \
    NINE(X, 33, 1024, 128, 1040) \
    EIGHT(X, 42, 2048, 256)      \
    NINE(X, 50, 4096, 512, 4416) \
    EIGHT(X, 59, 8192, 1024)     \
    EIGHT(X, 67, 16384, 2048)
_Static_assert(HF_CLASSES == 67 + 8 && HF_GRAIN == 16, "each class has a row");

/* The bytes in a stack's blocks are bounded, so that a thread does not hold many large ones. */
enum { STACK_MOST = 64, STACK_LEAST = 4, STACK_BYTES = 128 << 10 };
#define STACK(size)                                     \
    (STACK_BYTES / (size) > STACK_MOST    ? STACK_MOST  \
     : STACK_BYTES / (size) < STACK_LEAST ? STACK_LEAST \
                                          : STACK_BYTES / (size))

/* The fewest units that hold four blocks and leave little behind the last one. Blocks above a page
 * are few in a span, so that it matters more. */
enum { BLOCKS_LEAST = 4, LARGE = 4096 };
#define BYTES(units) ((units) * (1 << HF_LG_UNIT))
#define FITS(units, size)                     \
    (BYTES(units) / (size) >= BLOCKS_LEAST && \
     BYTES(units) % (size) * ((size) > LARGE ? 32 : 16) <= BYTES(units))
#define UNITS(size)      \
    (FITS(1, size)   ? 1 \
     : FITS(2, size) ? 2 \
     : FITS(3, size) ? 3 \
     : FITS(4, size) ? 4 \
     : FITS(5, size) ? 5 \
     : FITS(6, size) ? 6 \
     : FITS(7, size) ? 7 \
                     : 8)

#define ROW(number, before, bytes)                      \
    [number] = {.reciprocal = UINT64_MAX / (bytes) + 1, \
                .size = (bytes),                        \
                .stack = (uint8_t)(STACK(bytes)),       \
                .units = UNITS(bytes)},
const struct hf_class hf_classes[HF_CLASSES] = {ROW(HF_CLASS_NOTHING, 0, 16) EACH(ROW)};

#define SIZE(number, before, bytes) [number] = (bytes),
const size_t hf_class_sizes[HF_CLASSES] = {[HF_CLASS_NOTHING] = 0, EACH(SIZE)};

#define RANGE(number, before, bytes) [(before) / HF_GRAIN + 1 ...(bytes) / HF_GRAIN] = (number),
const uint8_t hf_class_table[HF_LARGEST / HF_GRAIN + 1] = {[0] = HF_CLASS_NOTHING, EACH(RANGE)};
