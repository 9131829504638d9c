/*
 * Memory that CUDA gave to others: who has which, as far as their calls are routed. So that free()
 * and its kind send it home, to the function of the library that it came from, and that
 * hf_owner_of() can name it. See others.c for what is owned and locked.
 *
 * What somebody registers (cudaHostRegister()) stays its allocator's: it is recorded for
 * hf_owner_of() alone.
 */
#ifndef HOMEFREE_SPACE_OTHERS_H
#define HOMEFREE_SPACE_OTHERS_H

#include <homefree/homefree.h>

#include <stdatomic.h>

/* What was given; shim/functions.def names these. */
enum hf_others_memory {
    HF_OTHERS_DEVICE,
    HF_OTHERS_MANAGED,
    HF_OTHERS_POOLED, /* in the order of a stream */
    HF_OTHERS_PINNED,
    HF_OTHERS_REGISTERED,
    HF_OTHERS_MAPPED /* by the driver, to addresses that were reserved */
};

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

/* The library that memory comes from, with the name of the function that gives it back: a number;
 * 0 if it is not known. map: the library's link_map; release: a string constant. Lock-free. */
unsigned hf_others_source(const void *map, const char *release);
/* Makes it known; the library must never be unloaded. 0 if it has no such function, or there are
 * too many. Takes the loader's lock. */
unsigned hf_others_add_source(const void *map, const char *release);

/* Records memory that a call has handed out or registered. caller: an address in the code that made
 * the call. What was recorded there before is forgotten: it was freed unseen. */
void hf_others_given(const void *at, size_t size, enum hf_others_memory memory, unsigned source,
                     const void *caller);

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

/* Part of hf_spaces_start(). begin_asking: called when the first memory is recorded; makes routed
 * calls ask who owns a foreign pointer. */
void hf_others_start(void (*begin_asking)(void));

#endif
