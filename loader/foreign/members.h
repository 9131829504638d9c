/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Members of the registry (include/allocator_registry.h): allocators that say themselves which
 * blocks are theirs. Runs in routing passes, under the loader's lock.
 */
#ifndef HOMEFREE_LOADER_FOREIGN_MEMBERS_H
#define HOMEFREE_LOADER_FOREIGN_MEMBERS_H

#include "alloc/base/dynlink.h"
#include "loader/foreign/known_allocators.h"

/* What the members of an object are. What a note leads to is believed only if it lies in the
 * object's segments. */
struct hf_members {
    size_t count;
    /* The known allocators that they are by their names. One with a name of its own may be any:
     * then nothing else of the object is known by a search. */
    bool known[HF_ALLOCATOR_COUNT];
    bool unnamed;
};
void hf_members_find(const struct hf_object *object, struct hf_members *out);

/*
 * Publishes them as foreign allocators, once, and pins the object. shares: it holds others, too.
 *
 * Result: the number under which the object's mappings must be recorded, because a member does not
 * know all of its blocks; 0: none.
 */
unsigned hf_members_publish(const struct hf_object *object, const struct hf_members *members,
                            bool shares);

#endif
