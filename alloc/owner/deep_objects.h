/*
 * Objects opened with RTLD_DEEPBIND, which get libc's and the C++ runtime's functions although
 * another object's come first. Owns their list; any thread, no lock.
 */
#ifndef HOMEFREE_DEEP_OBJECTS_H
#define HOMEFREE_DEEP_OBJECTS_H

#include <link.h>
#include <stdbool.h>

/* Notes an object. Does nothing if it is known, or if there are too many. */
void hf_deep_note(const struct link_map *map);

/* Whether an object was noted. The dynamic section tells whether another object now has the same
 * link_map. */
bool hf_deep_has(const struct link_map *map);

#endif
