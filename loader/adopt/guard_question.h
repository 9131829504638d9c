/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the guards of release-only copies ask (satellites/adopt/hidden/release_only.h). Copies refer
 * to it by name, so the name keeps its meaning for ever.
 *
 * Owns: the table of guards that lie outside of their objects (live_guards.h). Callable at any
 * stage, from any thread; takes no lock of the heap. Since 1.0.
 */
#ifndef HOMEFREE_LOADER_ADOPT_GUARD_QUESTION_H
#define HOMEFREE_LOADER_ADOPT_GUARD_QUESTION_H

#include <homefree/homefree.h>
#include <link.h>

/* Whether a block belongs to another allocator than the one in the object that calls: to the heap,
 * to libc, or to an allocator in another object. False for NULL, and where nobody knows. */
HF_API bool hf_adopted_elsewhere(const void *block);

/* Enters the guards of an object, from `start` to `end`; false if the table is full. Called under
 * the loader's lock, before any code leads to them. */
bool hf_guards_add(const struct link_map *map, const void *start, const void *end);
/* Code leads to all guards of an object. */
void hf_guards_done(const struct link_map *map);
/* Whether that was said. Any thread. */
bool hf_guards_has(const struct link_map *map);

#endif
