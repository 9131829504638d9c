/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared blocks: blocks of the heap that somebody holds beside their owner. A block is shared from
 * the first hf_shared_blocks_take() until only one holder is left, who then frees it as if it had
 * never been shared. NumPy's arrays ask here before they free or resize their data, so what another
 * interpreter was given stays in place, whatever becomes of the array.
 *
 * shared_blocks.c owns the table and its lock. Asking about a block that nobody shares costs one
 * load. Any thread, also after the interpreter has ended.
 */
#ifndef HOMEFREE_LOADER_HOST_SHARED_BLOCKS_H
#define HOMEFREE_LOADER_HOST_SHARED_BLOCKS_H

#include "alloc/heap/internal.h"

#include <stdbool.h>
#include <stdint.h>

#define HF_SHARED_BUCKETS 4096

struct hf_shared_block;
extern struct hf_shared_block *hf_shared_buckets[HF_SHARED_BUCKETS]
    __attribute__((visibility("hidden")));

static inline unsigned hf_shared_bucket(const void *block)
{
    return (unsigned)(((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

/* Adds a holder to a live block of the heap, which already has one. Returns 0 or -ENOMEM. */
int hf_shared_blocks_take(const void *block);

/* Whether the block is shared. The caller holds it. */
static inline bool hf_shared_blocks_has(const void *block);

/* Removes a holder. Returns false if the block is not shared: the caller is the last holder, and
 * frees it. */
static inline bool hf_shared_blocks_drop(const void *block);

/* The slow ends of both, for a block whose bucket is not empty. */
bool hf_shared_blocks_is_listed(const void *block);
bool hf_shared_blocks_drop_listed(const void *block);

static inline bool hf_shared_bucket_is_empty(const void *block)
{
    return __atomic_load_n(&hf_shared_buckets[hf_shared_bucket(block)], __ATOMIC_ACQUIRE) == NULL;
}
static inline bool hf_shared_blocks_has(const void *block)
{
    return HF_UNLIKELY(!hf_shared_bucket_is_empty(block)) && hf_shared_blocks_is_listed(block);
}
static inline bool hf_shared_blocks_drop(const void *block)
{
    return HF_UNLIKELY(!hf_shared_bucket_is_empty(block)) && hf_shared_blocks_drop_listed(block);
}

#endif
