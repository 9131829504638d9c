/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache of freed large blocks, in front of pages: threads share it, so that a block which one
 * frees and another takes comes back, too. It holds at most a share of all memory in large blocks,
 * and what is not needed for a window of time goes back to pages.
 *
 * All functions: any thread inside the gate; no lock is held.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LARGE_CACHE_H
#define HOMEFREE_ALLOC_SPANS_LARGE_CACHE_H

#include "alloc/spans/large_record.h"

/* A block that its user has freed, of at least `size` bytes and of a size class that `most` bytes
 * reach; NULL if there is none. */
struct hf_large *hf_large_cache_take(size_t size, size_t most);

/* The same for a block that grows, and so will grow more: the largest there is, if it is not too
 * much. Its size remains what is asked for. */
struct hf_large *hf_large_cache_take_growing(size_t size);

/* Tells how much more or less of live blocks is for their growth. */
void hf_large_cache_lent(ptrdiff_t more);

/* Keeps a freed block; false if it must go to pages. */
bool hf_large_cache_give(struct hf_large *block);

/* Tells how many bytes pages gave or took back. */
void hf_large_cache_held(ptrdiff_t more);

/* Calls end for blocks that are kept no longer: those that nobody needed for some windows, at whose
 * ends this is called, or all. */
void hf_large_cache_trim(bool all, void (*end)(struct hf_large *block));

/* Bytes that are kept; of all other blocks, about. No gate. */
size_t hf_large_cache_kept(void);
size_t hf_large_cache_live(void);

#endif
