/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that CUDA gave to others: who has which, as far as their calls are routed. So that free()
 * and its kind send it home, to the function of the library that it came from, and that
 * hf_owner_of() can name it. See others.c for what is owned and locked.
 *
 * What somebody registers (cudaHostRegister()) stays its allocator's: it is recorded for
 * hf_owner_of() alone.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_OTHERS_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_OTHERS_H

#include "alloc/space/cuda_satellite.h"

#include <stdatomic.h>

struct hf_others_block {
    uintptr_t start; /* 0: none */
    size_t size;
    void *context;      /* of CUDA's; NULL if unknown */
    const void *caller; /* the code that asked for it */
    const char *object; /* the path of its object; a string that is never freed; NULL if unknown */
    int16_t device;     /* -1 if unknown */
    uint8_t memory;     /* enum hf_others_memory */
    uint8_t source;     /* 0 if unknown */
};

/* Records memory that a call has handed out or registered. What was recorded there before is
 * forgotten: it was freed unseen. For the first block of a library, which is never unloaded then,
 * takes the loader's lock. */
void hf_others_given(const struct hf_cuda_given *given);

/* Whether anything is recorded. Lock-free. */
extern _Atomic(size_t) hf_others_count;
static inline bool hf_others_any(void)
{
    return atomic_load_explicit(&hf_others_count, memory_order_relaxed) != 0;
}

/*
 * For a call of CUDA's that gives memory back, and is meant for `meant`. False: the call is to be
 * made, and if it fails, *block is to be kept; it is forgotten until then. True: the memory is of
 * another kind and went home; *result is CUDA's, for the caller.
 */
bool hf_others_freeing(void *ptr, enum hf_others_memory meant, struct hf_others_block *block,
                       int *result);
void hf_others_keep(const struct hf_others_block *block);

/* Mappings in a range are gone. */
void hf_others_unmapped(void *at, size_t size);

/* For hf_owner_of(): fills owner if an address is recorded, or returns false. */
bool hf_others_describe(const void *ptr, struct hf_owner *owner);

/* The code that got the memory that an address is recorded in, which may be unloaded by now; NULL
 * if none is. */
const void *hf_others_caller(const void *ptr);

/* In a forked child. */
void hf_others_in_child(void);

#endif
