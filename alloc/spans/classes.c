/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See classes.h.
 */
#include "alloc/spans/classes.h"

#include "alloc/spans/class_list.h"

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
const struct hf_class hf_classes[HF_CLASSES] = {ROW(HF_CLASS_NOTHING, 0, 16) HF_EACH_CLASS(ROW)};

#define SIZE(number, before, bytes) [number] = (bytes),
const size_t hf_class_sizes[HF_CLASSES + 1] = {[HF_CLASS_NOTHING] = 0, HF_EACH_CLASS(SIZE)};

const uint8_t hf_class_table[HF_LARGEST / HF_GRAIN + 1] = HF_CLASS_TABLE;
