/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast paths of homefree/space.h: a block of a thread's stack of a space's first stream, and
 * back to it. No lock, no call. Everything else is for spaces.c. Owns nothing.
 *
 * In a thread without stacks, what is read here may be incomplete: its stacks come later.
 *
 * These functions read what others may write with plain loads, which compilers fold into the
 * comparisons; atomic ones they do not.
 */
#include "satellites/cuda/space/spaces.h"
#include "satellites/cuda/varena/varena.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Classes are numbered from 1: the stacks of class 0 are empty and full. */
ALWAYS_INLINE bool take(void **out, struct hf_varena_stacks *stacks, size_t size)
{
    const unsigned class = stacks->classes[(size - 1) / HF_VARENA_ALIGNMENT];
    struct hf_varena_freed *top = stacks->tops[class];
    char *block = top->block;
    if (HF_UNLIKELY(block == NULL))
        return false;
    stacks->tops[class] = top - 1;
    __atomic_store_n(top->state, HF_LIVE, __ATOMIC_RELAXED);
    *out = block;
    return true;
}

/* The slow path gets constants where they are known, so that the registers are free. A closed space
 * has a stream that no caller has. */
int hf_spaces_alloc(void **out, enum hf_space_kind kind, int device, size_t size, size_t alignment,
                    void *stream)
{
    const struct hf_fast_space *pinned = &hf_fast_spaces.at[0], *devices = &hf_fast_spaces.at[1];
    if (HF_LIKELY(out != NULL && size - 1 < HF_VARENA_CACHED)) {
        if (((size_t)((unsigned)kind - HF_SPACE_DEVICE) | alignment) == 0) {
            const size_t number = (unsigned)device;
            if (HF_LIKELY(number < HF_SPACES_MAX - 1 && stream == devices[number].stream) &&
                HF_LIKELY(take(out, (hf_varena_here->spaces + 1)[number], size)))
                return 0;
            return hf_spaces_alloc_slowly(out, HF_SPACE_DEVICE, device, size, 0, stream);
        }
        if (HF_LIKELY(((size_t)((unsigned)kind - HF_SPACE_PINNED) | alignment) == 0)) {
            if (HF_LIKELY(pinned->stream == NULL) &&
                HF_LIKELY(take(out, hf_varena_here->spaces[0], size)))
                return 0;
            return hf_spaces_alloc_slowly(out, HF_SPACE_PINNED, device, size, 0, stream);
        }
    }
    return hf_spaces_alloc_slowly(out, kind, device, size, alignment, stream);
}

ALWAYS_INLINE bool covers(size_t number, const void *ptr)
{
    const struct hf_fast_space *space = &hf_fast_spaces.at[number];
    return (uintptr_t)ptr - space->base < space->size;
}

/*
 * Whoever turns the state has the block. An entry has class 0 but in a span of the space's arena:
 * what its other fields seem to tell is not used then.
 *
 * The size divides the offset if the low half of the product is small: less than 2^22, because a
 * span has at most 2^7 blocks of at most 2^15 bytes. Otherwise it is at least the reciprocal, 2^49.
 */
enum { LEAST = 1 << 22 };
ALWAYS_INLINE int give(size_t number, void *ptr, void *stream)
{
    const struct hf_fast_space *space = &hf_fast_spaces.at[number];
    if (HF_UNLIKELY(stream != space->frees))
        return hf_spaces_free_slowly(ptr, stream);
    const struct hf_varena_entry *entry =
        (const struct hf_varena_entry *)space->entries + ((uintptr_t)ptr >> HF_VARENA_LG_UNIT);
    const unsigned __int128 product =
        (unsigned __int128)((uint32_t)(uintptr_t)ptr - entry->first) * entry->reciprocal;
    if (HF_UNLIKELY((uint64_t)product >= LEAST))
        return hf_spaces_free_slowly(ptr, stream);
    uint8_t *state = entry->state + (uint64_t)(product >> 64), live = HF_LIVE;
    struct hf_varena_stacks *stacks = hf_varena_here->spaces[number];
    const size_t class = entry->class;
    struct hf_varena_freed *top = stacks->tops[class];
    if (HF_UNLIKELY(top == stacks->lasts[class]) ||
        HF_UNLIKELY(!__atomic_compare_exchange_n(state, &live, HF_STACKED, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_RELAXED)))
        return hf_spaces_free_slowly(ptr, stream);
    stacks->tops[class] = ++top;
    *top = (struct hf_varena_freed){ptr, state};
    return 0;
}

/* Apart, or compilers merge both ends by a jump. */
static __attribute__((noinline)) int free_of_devices(void *ptr, void *stream)
{
    if (HF_LIKELY(covers(1, ptr)))
        return give(1, ptr, stream);
    for (size_t number = 2; number < hf_fast_spaces.count; number++)
        if (covers(number, ptr))
            return give(number, ptr, stream);
    return hf_spaces_free_slowly(ptr, stream);
}

int hf_spaces_free(void *ptr, void *stream)
{
    return covers(0, ptr) ? give(0, ptr, stream) : free_of_devices(ptr, stream);
}
