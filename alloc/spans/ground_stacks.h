/*
 * A thread's blocks of a ground (ground.h), by the addresses that programs know. They belong to the
 * thread's local heap.
 */
#ifndef HOMEFREE_GROUND_STACKS_H
#define HOMEFREE_GROUND_STACKS_H

#include "alloc/spans/local.h"

enum {
    HF_GROUND_EXACT = 4096, /* multiples of HF_GROUND_ALIGNMENT to here, then eight a doubling */
    HF_GROUND_CLASSES = 1 + HF_GROUND_EXACT / 256 + 8 * 3 /* 0 is none */
};
_Static_assert(HF_GROUND_CACHED == HF_GROUND_EXACT << 3, "three doublings");
_Static_assert(HF_GROUND_ALIGNMENT == 256, "sizes are in units of it");

struct hf_ground_stacks {
    struct hf_freed *tops[HF_GROUND_CLASSES];                /* as in local.h */
    struct hf_freed *lasts[HF_GROUND_CLASSES];               /* the newest, of a full stack */
    uint8_t classes[HF_GROUND_CACHED / HF_GROUND_ALIGNMENT]; /* by size in that unit, less one */
    struct hf_ground *ground;
};
/* Of threads that have none: empty, and full. */
extern struct hf_ground_stacks hf_ground_no_stacks __attribute__((visibility("hidden")));

#endif
