/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mimalloc inside CPython 3.13 and later, as a hosted allocator of the region
 * (alloc/owner/hosted.h). In a free-threaded build the domains MEM and OBJ are its own, and it
 * cannot be replaced: the collector finds objects by walking through its pages, and other threads
 * may read an object that is being freed. With a GIL it has them under PYTHONMALLOC=mimalloc.
 *
 * Its memory comes from the region: the calls by which it maps are served there
 * (foreign/hosted_mappings.h). What it had mapped before is found when the host is installed. A
 * block that anything else frees is passed to CPython if the calling thread is attached.
 */
#ifndef HOMEFREE_LOADER_HOST_MIMALLOC_H
#define HOMEFREE_LOADER_HOST_MIMALLOC_H

#include "loader/foreign/hosted_mappings.h"
#include "loader/host/cpython.h"

/* Whether an interpreter uses its mimalloc; and what a routing pass is told of that
 * (hosted_mappings.h), if there is room for another foreign allocator. */
bool hf_mimalloc_is_used(const struct hf_object *object);
bool hf_mimalloc_find(const struct hf_cpython *cpython, struct hf_mapping_host *out);

/* Makes free() and owner_of() know the blocks that it has outside the region, once: for the first
 * thread that calls and is attached. */
void hf_mimalloc_install(const struct hf_cpython *cpython);

#endif
