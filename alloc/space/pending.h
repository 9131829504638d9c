/*
 * Blocks that are freed, but that a device may still use. See pool.h for the words and locks.
 */
#ifndef HOMEFREE_PENDING_H
#define HOMEFREE_PENDING_H

#include "alloc/space/pool.h"

/* Keeps a freed block until `stream`, and the streams that also use it, are done, or until all
 * devices were idle (HF_STREAM_ANY); returns it to its ground at once if all are done. 0, or
 * -ECANCELED if the block had to be leaked. */
int hf_pending_add(struct hf_pool *pool, const struct hf_ground_block *block, void *stream);

/* Returns blocks whose streams are done to their grounds. True if any was. */
bool hf_pending_poll(struct hf_pool *pool);

/* Waits for all devices, and returns all blocks that were pending before. True if any was. With
 * any_only, waits only if a block's streams are unknown. */
bool hf_pending_wait(struct hf_pool *pool, bool any_only);

/* hf_space_use() of a live block. */
int hf_pending_use(struct hf_pool *pool, const void *block, void *stream);

/* Returns a block to its ground. */
void hf_block_return(struct hf_pool *pool, const struct hf_ground_block *block);

#endif
