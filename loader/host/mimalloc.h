/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The mimalloc inside a free-threaded CPython, as a foreign allocator (alloc/owner/foreign.h).
 * There the domains MEM and OBJ are its own, and it cannot be replaced: the collector finds objects
 * by walking through its pages, and other threads may read an object that is being freed. A block
 * that anything else frees is passed to CPython if the calling thread is attached.
 */
#ifndef HOMEFREE_LOADER_HOST_MIMALLOC_H
#define HOMEFREE_LOADER_HOST_MIMALLOC_H

#include "loader/host/cpython.h"

/* Makes free() and owner_of() know its blocks, once: for the first thread that calls and is
 * attached. Without symbols in CPython's file or a debug file, nothing happens. */
void hf_mimalloc_install(const struct hf_cpython *cpython);

#endif
