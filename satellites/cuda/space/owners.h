/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frees that do not say which stream used a block: free(), realloc(), hf_free() and the like. Owns
 * what owners.c says.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_OWNERS_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_OWNERS_H

#include "alloc/space/cuda_satellite.h"

/* For struct hf_cuda_satellite. */
void hf_owners_describe(const void *ptr, struct hf_owner *owner);
int hf_owners_returned(const struct hf_cuda_returned *returned);

/* Once. */
void hf_owners_start(void);

#endif
