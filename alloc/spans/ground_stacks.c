/*
 * See ground_stacks.h.
 */
#include "alloc/spans/ground_stacks.h"

static struct hf_freed nothing; /* the end of an empty stack */
struct hf_ground_stacks hf_ground_no_stacks = {
    .tops = {[0 ... HF_GROUND_CLASSES - 1] = &nothing},
    .lasts = {[0 ... HF_GROUND_CLASSES - 1] = &nothing},
};
