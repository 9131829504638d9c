/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracks slots that another thread may still overwrite.
 *
 * Routing may replace a lazy slot while another thread is inside the loader's resolver. If that
 * thread looked the function up before routing changed the symbol table entry (symbol_tables.h), it
 * stores the original later. The window is a few instructions, but the thread may be suspended
 * there indefinitely, and this cannot be detected. Such slots are therefore checked again in every
 * routing pass.
 *
 * The list changes under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_INTERPOSE_LATE_STORES_H
#define HOMEFREE_LOADER_INTERPOSE_LATE_STORES_H

#include "alloc/base/dynlink.h"

/* Records that routing stored `stub` in an unresolved slot. Does nothing in a single-threaded
 * process. */
void hf_late_expect(const struct link_map *map, void **slot, void *stub, void *original);

/* Returns whether any slot is recorded. Any thread; takes no lock. */
bool hf_late_any(void);

/* Restores stubs that a late store has overwritten with the original, and drops slots of unloaded
 * objects. Called under the loader's lock. Result: the number of slots restored. */
size_t hf_late_restore(void);

/* Registers the fork handler. Called once, by the library's constructor. */
void hf_late_start(void);

#endif
