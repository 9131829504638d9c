/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks that are freed, but that a device may still use. See pool.h for the words and locks.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_PENDING_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_PENDING_H

#include "satellites/cuda/space/pool.h"

/* Keeps a freed block until `stream`, and the streams that also use it, are done, or until all
 * devices were idle (HF_STREAM_ANY); returns it to its arena at once if all are done. 0, or
 * -ECANCELED if the block had to be leaked. */
int hf_pending_add(struct hf_pool *pool, const struct hf_varena_block *block, void *stream);

/* Returns blocks whose streams are done to their arenas. True if any was. */
bool hf_pending_poll(struct hf_pool *pool);

/* Waits, and returns what is free then to the arenas. True if anything is. */
enum hf_pending_what {
    HF_WAIT_ALL,     /* for all devices */
    HF_WAIT_UNKNOWN, /* for all devices, if there is a block whose streams are unknown */
    HF_WAIT_OLDEST   /* for the oldest block whose streams are known */
};
bool hf_pending_wait(struct hf_pool *pool, enum hf_pending_what what);

/* Leaks all of them: nobody can tell any more when a device is done. */
void hf_pending_leak(struct hf_pool *pool);

/* hf_space_use() of a live block. */
int hf_pending_use(struct hf_pool *pool, const void *block, void *stream);

/* Returns a block to its arena. */
void hf_block_return(struct hf_pool *pool, const struct hf_varena_block *block);

#endif
