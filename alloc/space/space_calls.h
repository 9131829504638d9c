/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spaces as libhomefree knows them: it opens the satellite that has them (cuda_satellite.h), tells
 * watches what that hands out, and answers where there is none. Owns the satellite's table.
 *
 * The satellite is opened by the first call that asks for a space or for its limit, or when CUDA
 * first gives memory to others: a process that does neither never opens it. All functions are those
 * of the copy that is the heap.
 */
#ifndef HOMEFREE_ALLOC_SPACE_SPACE_CALLS_H
#define HOMEFREE_ALLOC_SPACE_SPACE_CALLS_H

#include "alloc/base/satellite.h"
#include "alloc/base/seal.h"
#include "alloc/heap/internal.h"
#include "alloc/space/cuda_satellite.h"

/* The satellite; NULL until it is opened. Lock-free. */
struct hf_cuda_place {
    struct hf_satellite cuda;
    void (*ask)(void); /* what was handed in */
};
union hf_cuda_sealed {
    struct hf_cuda_place place;
    char pages[HF_SEAL_SIZE(struct hf_cuda_place)];
};
extern union hf_cuda_sealed hf_cuda_sealed __attribute__((visibility("hidden")));
static inline const struct hf_cuda_satellite *hf_cuda_opened(void)
{
    return hf_satellite_functions(&hf_cuda_sealed.place.cuda);
}

/* For other copies. */
extern const struct hf_space_functions hf_spaces_here __attribute__((visibility("hidden")));

/* hf_space_alloc(), but for HF_SPACE_HOST, and hf_space_free() on behalf of a caller: an address in
 * the calling code, for watches. */
int hf_space_alloc_for(void **out, enum hf_space_kind kind, int device, size_t size,
                       size_t alignment, void *stream, const void *caller);
int hf_space_free_for(void *ptr, void *stream, const void *caller);

/* hf_owner_of() of what owner/owner.h does not know: memory that CUDA gave to somebody else. */
void hf_spaces_describe_other(const void *ptr, struct hf_owner *owner);

/* A routed call of CUDA's has handed memory out. Opens the satellite, which takes the loader's
 * lock. */
void hf_spaces_given(const struct hf_cuda_given *given);

/* Makes a routed call of CUDA's that gives memory back. To be called if this is true of its
 * pointer; otherwise the call is the function's alone. */
static inline bool hf_spaces_may_know(const void *ptr)
{
    return HF_UNLIKELY(hf_cuda_opened() != NULL || hf_owned(ptr));
}
int hf_spaces_returned(const struct hf_cuda_returned *returned);

/* Bytes of the region that are lent to spaces. */
uint64_t hf_spaces_lent(void);

void hf_spaces_in_child(void);

/* loader/ hands in, from its constructor, the function by which routed calls begin to ask who owns
 * a foreign pointer. */
void hf_spaces_offer_asking(void (*begin)(void));

#endif
