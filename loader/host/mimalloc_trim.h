/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Giving back what CPython's mimalloc has and does not use.
 */
#ifndef HOMEFREE_LOADER_HOST_MIMALLOC_TRIM_H
#define HOMEFREE_LOADER_HOST_MIMALLOC_TRIM_H

#include "alloc/owner/hosted.h"

/* Gives back to the system what no block is in, for all threads, also for those that have ended.
 * number: of the foreign allocator that has the pages outside the region. False if that is not
 * possible in this CPython or at this moment. Any thread, which is attached meanwhile: the caller
 * holds no lock that Python code may wait for. */
bool hf_mimalloc_trim(const struct hf_hosted *hosted, unsigned number);

#endif
