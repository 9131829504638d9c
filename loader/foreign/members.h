/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members of the registry (include/allocator_registry.h): allocators that say themselves which
 * blocks are theirs. Runs in routing passes, under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_MEMBERS_H
#define HOMEFREE_LOADER_FOREIGN_MEMBERS_H

#include "alloc/base/dynlink.h"

/*
 * Publishes the members of an object as foreign allocators, once, and pins the object. What a note
 * leads to is believed only if it lies in the object's segments.
 *
 * Result: whether the object has members, so that nothing about it need be guessed. `*tracked` is
 * the number under which its mappings must be recorded, because a member does not know all of its
 * blocks; 0: none.
 */
bool hf_members_look(const struct hf_object *object, unsigned *tracked);

#endif
