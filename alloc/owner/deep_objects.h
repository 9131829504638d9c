/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects opened with RTLD_DEEPBIND, which get libc's and the C++ runtime's functions although
 * another object's come first. Owns their list; any thread.
 */
#ifndef HOMEFREE_ALLOC_OWNER_DEEP_OBJECTS_H
#define HOMEFREE_ALLOC_OWNER_DEEP_OBJECTS_H

#include <link.h>
#include <stdbool.h>

/* Notes an object, in place of one that was unloaded. Does nothing if it is known, or if there are
 * too many. Under the loader's lock. */
void hf_deep_note(const struct link_map *map);

/* Whether an object was ever noted. Lock-free. */
bool hf_deep_any(void);

/* Whether an object, which stays loaded meanwhile, was noted. Lock-free. The dynamic section tells
 * whether another object now has the same link_map. */
bool hf_deep_has(const struct link_map *map);

#endif
