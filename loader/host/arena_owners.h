/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which interpreter each of pymalloc's arenas in the region belongs to, and which of those outside
 * are the main one's. From 3.12 on an interpreter may have a pymalloc of its own, and only its own
 * threads may call that.
 *
 * arena_owners.c owns the table and its lock. Looking up takes no lock. An arena that found no room
 * in the table belongs to nobody that is known.
 */
#ifndef HOMEFREE_LOADER_HOST_ARENA_OWNERS_H
#define HOMEFREE_LOADER_HOST_ARENA_OWNERS_H

#include <stddef.h>
#include <stdint.h>

#define HF_NO_INTERPRETER    ((int64_t)-1)
#define HF_ENDED_INTERPRETER ((int64_t)-2) /* nobody's, until it is handed out again */

/* Records an arena that was handed out, and forgets one that was given back. Any thread. */
void hf_arena_owners_add(const void *arena, int64_t interpreter);
void hf_arena_owners_remove(const void *arena);

/* Says that an arena is nobody's any more, and hands out one that is: NULL if there is none. */
void hf_arena_owners_end(const void *arena);
void *hf_arena_owners_reuse(int64_t interpreter);

/* The interpreter of an arena; HF_NO_INTERPRETER if it is not known. Lock-free, any thread. */
int64_t hf_arena_owners_find(const void *arena);

/* Visits all arenas that belong to an interpreter, under the lock: none is given back meanwhile. */
void hf_arena_owners_each(void (*visit)(void *context, const void *arena, int64_t interpreter),
                          void *context);

/* The next arena of an interpreter, starting with *position at 0; NULL after the last one, which
 * leaves *position behind its entry. The interpreter has ended, so nobody adds or removes arenas of
 * it. */
void *hf_arena_owners_next(int64_t interpreter, size_t *position);

#endif
