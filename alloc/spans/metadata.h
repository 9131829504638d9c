/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for the books of spans and large blocks: local heaps, stacks, states, records. It lies in
 * the region, so no foreign pointer is taken for it, without entries, so that nobody can free it,
 * and between pages that nobody may touch. It is never given back.
 *
 * metadata.c owns it. With the spans' lock.
 */
#ifndef HOMEFREE_ALLOC_SPANS_METADATA_H
#define HOMEFREE_ALLOC_SPANS_METADATA_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed, at a cache line. NULL if there is no memory. */
void *hf_metadata_take(size_t size);

uint64_t hf_metadata_bytes(void);

#endif
