/*
 * The streams that have memory in a pool, each with its ground. See pool.h for the words and locks.
 */
#ifndef HOMEFREE_SPACE_STREAMS_H
#define HOMEFREE_SPACE_STREAMS_H

#include "alloc/space/pool.h"

/* cudaStreamLegacy and cudaStreamPerThread. */
#define HF_STREAM_LEGACY     ((void *)(uintptr_t)1)
#define HF_STREAM_PER_THREAD ((void *)(uintptr_t)2)

/* The stream's entry; NULL if it has no ground yet. Lock-free. */
struct hf_stream *hf_stream_find(struct hf_pool *pool, void *stream);
/* The same; gives it a ground if necessary. NULL with *error: -EAGAIN if there are too many,
 * -ENOMEM. */
struct hf_stream *hf_stream_open(struct hf_pool *pool, void *stream, int *error);
/* The entry whose ground has this arena. Lock-free. */
struct hf_stream *hf_stream_of_arena(struct hf_pool *pool, unsigned arena);

#endif
