/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks that count for a limit (limited.h): made so, and resized. front_end.h declares what the
 * rest of homefree calls. Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LIMITED_BLOCKS_H
#define HOMEFREE_ALLOC_SPANS_LIMITED_BLOCKS_H

#include "alloc/spans/limited.h"

/* A live block on its way to another size, or to another place. */
struct hf_limited_resize {
    int limit; /* -1: it counts for none */
    uint64_t counted;
};

/* Counts what the block would have more, if it counts for a limit; from then on it is an ordinary
 * one. False with ENOMEM: that would be above the limit, and nothing has changed. */
bool hf_limited_resize_begin(struct hf_limited_resize *resize, const void *ptr, size_t size);
/* block: where it is now, which may be where it was. */
void hf_limited_resize_end(const struct hf_limited_resize *resize, const void *block);

/* In the calling thread's span: what counts for a limit becomes an ordinary live block. Whether it
 * did. No gate. */
bool hf_limited_end_own(struct hf_local *local, const void *ptr, const struct hf_entry *entry);

#endif
