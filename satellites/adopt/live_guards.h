/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guards in front of an allocator's functions in an object that is loaded, and that other threads
 * may be running.
 *
 * Owns: the guards, for the life of the process, and a list of refusals, which a lock guards.
 * Changes run under the loader's lock. Any thread, but not in an IFUNC resolver.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_LIVE_GUARDS_H
#define HOMEFREE_SATELLITES_ADOPT_LIVE_GUARDS_H

#include "satellites/adopt/adopted_copy.h"

#include <link.h>

/*
 * Guards the allocator inside of a loaded object, which `adoption` has open. Result: 0, also if it
 * was done before, or a negative errno with adoption->why: -EBUSY if code would have to be changed
 * that a thread may be running, or nothing can be proven; -EPERM if the system forbids new code.
 */
int hf_live_guard(struct hf_adoption *adoption, const struct link_map *map);

#endif
