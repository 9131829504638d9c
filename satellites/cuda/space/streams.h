/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The streams that have memory in a pool, each with its arena. See pool.h for the words and locks.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_SPACE_STREAMS_H
#define HOMEFREE_SATELLITES_CUDA_SPACE_STREAMS_H

#include "satellites/cuda/space/pool.h"

/* The stream's entry; NULL if it has no arena, or, rarely, while entries get other streams.
 * Lock-free. */
struct hf_stream *hf_stream_find(struct hf_pool *pool, void *stream);
/* The same, with the pool's lock: never wrong. */
struct hf_stream *hf_stream_find_surely(struct hf_pool *pool, void *stream);
/* The same; gives it an arena if necessary. May wait for the device. NULL with *error: -EAGAIN if
 * there are too many, -ENOMEM. */
struct hf_stream *hf_stream_open(struct hf_pool *pool, void *stream, int *error);
/* Whether the entry is still the stream's, after a block was taken from its arena and, if it is
 * large, counted. Otherwise the block must be given back unused. unordered: whether no lock orders
 * the taking and the counting of blocks. */
bool hf_stream_is_still(const struct hf_pool *pool, const struct hf_stream *entry, void *stream,
                        bool unordered);
/* The entry whose arena has this number. Lock-free. */
struct hf_stream *hf_stream_of_varena(struct hf_pool *pool, unsigned number);

#endif
