/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mmap tracking: records in the table of foreign pages (foreign_pages.h) which object maps which
 * pages, as seen by the stubs of mmap(2) and related functions.
 *
 * An object that may contain an allocator is a candidate; routing passes decide that, after
 * searching its symbols for known allocators (finding.h). If one was found, the object's private
 * anonymous mappings are recorded for it. Otherwise the pass searches the object's file for strings
 * that known allocators keep even when stripped, and these decide when the object first maps such
 * memory.
 *
 * An object's constructors run before a pass sees it. Their mappings are recorded under a number
 * reserved for the object, and forgotten if the pass finds that it is not a candidate.
 *
 * Functions for passes run under the loader's lock. All others may be called from any thread and in
 * signal handlers: they take no lock, allocate nothing and preserve errno. Without _dl_find_object
 * (glibc before 2.35) finding the caller's object takes a lock, so nothing is recorded there.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_MMAP_TRACKING_H
#define HOMEFREE_LOADER_FOREIGN_MMAP_TRACKING_H

#include "alloc/base/dynlink.h"
#include "loader/foreign/known_allocators.h"

#include <sys/types.h>

/* ---- for routing passes ---- */

/* Registers a candidate. `number`: the foreign allocator found in it, or 0 if its strings shall
 * tell; those of allocators in `known` are passed over. Called under the loader's lock. */
void hf_tracking_candidate(const struct link_map *map, unsigned number,
                           const bool known[HF_ALLOCATOR_COUNT]);

/* Returns whether a pass has examined the object; a pass that starts over skips it. */
bool hf_tracking_is_candidate(const struct link_map *map);

/* Returns the number under which the pages of an object that no pass has seen are recorded, or 0. A
 * foreign allocator found in the object is published under this number. */
unsigned hf_tracking_number(const struct link_map *map);

/* Ends a pass: objects that mapped memory before it but are not candidates are dropped. */
void hf_tracking_settle(void);

/* Finds the known allocators whose strings an object's file contains. All false if the file is not
 * stripped, because its symbols then tell. */
void hf_tracking_search(const struct link_map *map, bool named[HF_ALLOCATOR_COUNT]);

/* Forgets unloaded objects and their pages. */
void hf_tracking_forget(void);

/* Registers the fork handler. Called once, by the library's constructor (init.c). */
void hf_tracking_start(void);

/* ---- for stubs ---- */

/* Called around each dlopen(). Meanwhile the constructors of objects that no pass has seen may run;
 * their mappings are recorded until a pass has examined the object. */
void hf_tracking_loading(bool begins);

/* Called after mmap(2). Result: at, also if it is MAP_FAILED. */
void *hf_tracking_mapped(void *at, size_t size, int flags, const void *caller);

/* Returns whether unmapping an address range requires hf_tracking_unmapping(). */
bool hf_tracking_has(const void *address, size_t size);
/* Called before munmap(2). The result is for hf_tracking_unmap_failed(), which restores the record
 * and returns `result`. */
unsigned hf_tracking_unmapping(void *address, size_t size);
long hf_tracking_unmap_failed(void *address, size_t size, unsigned number, long result);

/* Called before and after mremap(2). */
struct hf_tracking_move {
    char *from;
    size_t size, new_size;
    unsigned number;
    bool may_move;
};
struct hf_tracking_move hf_tracking_moving(void *address, size_t size, size_t new_size, int flags);
void *hf_tracking_moved(const struct hf_tracking_move *move, void *at);

/* Called after sbrk(2). Result: before. */
void *hf_tracking_break(void *before, intptr_t increment, const void *caller);
/* Records that code other than libc moves the program break. */
void hf_tracking_break_is_shared(void);

#endif
