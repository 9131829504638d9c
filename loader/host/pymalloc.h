/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pymalloc as a hosted allocator of the region (alloc/owner/hosted.h). Its arenas are pages that
 * the region lends it. A block that anything frees there is passed to CPython if the calling thread
 * may call CPython at that moment. host.c calls these functions.
 */
#ifndef HOMEFREE_LOADER_HOST_PYMALLOC_H
#define HOMEFREE_LOADER_HOST_PYMALLOC_H

#include "loader/host/cpython.h"

#include <stdint.h>

/* Makes pymalloc get new arenas from the region. The calling thread is attached, or the runtime is
 * not initialised; the caller holds the host's lock. */
void hf_pymalloc_install(const struct hf_cpython *cpython);
/* Records the arenas that pymalloc will get, wherever they come from, so that its blocks are
 * recognised. The runtime is not initialised; any further call changes nothing. */
void hf_pymalloc_record(const struct hf_cpython *cpython);
/* Undoes that for a CPython that has had no arena. Result: whether it was undone; false also if
 * somebody else has hooked its arenas or its domains. */
bool hf_pymalloc_give_way(const struct hf_cpython *cpython);
/* Makes pymalloc get new arenas from their previous source again. */
void hf_pymalloc_uninstall(void);

/* Sets the allocator that the OBJ domain had before "full" mode replaced it (domains.c); NULL if it
 * was not replaced. The allocator must live for ever. */
void hf_pymalloc_set_objects(const struct hf_py_allocator *previous);

/* hf_interpreters_post(), which a higher layer has: how a block is sent to its interpreter. Called
 * once, by the library's constructor. */
typedef int hf_pymalloc_post(int64_t interpreter, void (*run)(void *argument), void *argument);
void hf_pymalloc_offer_post(hf_pymalloc_post *post);

/* For left_behind.c: the size of an arena, 0 if none is known; the block of an arena in the region
 * that holds an address: its first byte, and its size, 0 if there is none; and an arena of an
 * interpreter that has ended, given back. */
size_t hf_pymalloc_arena_size(void);
size_t hf_pymalloc_block(const void *ptr, uintptr_t *first);
void hf_pymalloc_arena_free(void *arena);

/* Bytes in blocks in use in an arena. present: for each page, as mincore() writes it;
 * pools whose first page is not present are not looked at. Others may be changing the arena. */
size_t hf_pymalloc_live(const void *arena, const unsigned char *present, size_t page);

/*
 * What an interpreter that has ended left in arenas of its own: blocks that are still in use, and
 * how many blocks of ended interpreters were freed by others since. With give_back the arenas are
 * unmapped. Returns 0, -EBUSY if the interpreter has not ended, or -ENOENT if it left no arena.
 */
struct hf_pymalloc_left {
    size_t blocks, arenas, bytes, leaked;
};
int hf_pymalloc_left(int64_t interpreter, bool give_back, struct hf_pymalloc_left *out);

#endif
