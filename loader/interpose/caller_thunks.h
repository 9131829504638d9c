/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Caller thunks: identify the module that calls libhomefree while a watch is open
 * (alloc/trace/watch.h).
 *
 * The return address is not enough. A module's function that ends in free() jumps there through the
 * module's hidden free, so the stack holds the address of the module's own caller. While a watch is
 * open, the slots through which a module reaches the heap's functions therefore point to thunks
 * that record the module; they are restored when the last watch ends. Without a watch nothing is
 * slower.
 *
 * These callers get no thunk and are identified by their return address: objects not linked with
 * the shim (routed or adopted objects), modules beyond HF_THUNKS_MAX, slots that cannot be written,
 * and calls to functions that may be left other than by returning (scandir, getline,
 * open_memstream).
 *
 * The loader's lock guards the slots and the table of objects.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_CALLER_THUNKS_H
#define HOMEFREE_LOADER_INTERPOSE_CALLER_THUNKS_H

#include <link.h>

#define HF_THUNKS_MAX 32

/* Installs thunks in newly loaded objects, `map` and those that follow it, if a watch is open.
 * Called under the loader's lock, in a slot update (slot_writes.h). */
void hf_thunks_add(const struct link_map *map);

/* Enables thunks. Called once, by the library's constructor, before any watch begins. */
void hf_thunks_start(void);

#endif
