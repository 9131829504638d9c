/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What memory the interpreters have: their arenas of small objects, their heaps
 * (interpreter_heaps.h), and what counts for their limits.
 *
 * Owns nothing. Any thread; takes the lock of arena_owners.c, and walks through all blocks of the
 * heap without one, so what other threads do meanwhile may be seen or not.
 */
#ifndef HOMEFREE_LOADER_HOST_INTERPRETER_MEMORY_H
#define HOMEFREE_LOADER_HOST_INTERPRETER_MEMORY_H

#include <homefree/interpreters.h>
#include <stddef.h>

/* Fills what is known of the interpreters whose numbers are in the rows, all else of which is zero;
 * but not their limits. False if there is no memory. */
bool hf_interpreter_memory_measure(struct hf_interpreter_memory *rows, size_t count);

#endif
