/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the members of the registry (include/allocator_registry.h) that a loaded object publishes.
 * Stateless. What an object's notes say is hostile; what they lead to is read only inside of the
 * object's segments. The object must stay loaded.
 */
#ifndef HOMEFREE_ALLOC_BASE_MEMBER_NOTES_H
#define HOMEFREE_ALLOC_BASE_MEMBER_NOTES_H

#include "alloc/base/dynlink.h"
#include "include/allocator_registry.h"

/*
 * Goes on to the next of an object's notes that should lead to a member. `*note` is NULL before the
 * first call, and belongs to this function. Result: false if there is no further note. Otherwise
 * `*member` is the member, or NULL if there is none, and `*why` is then the rule that was broken.
 */
bool hf_member_next(const struct hf_object *object, const char **note,
                    const struct allocator_registry **member, const char **why);

#endif
