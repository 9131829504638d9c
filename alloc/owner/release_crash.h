/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a thread crashed while an allocator inside an object was given another allocator's block:
 * the object calls that allocator's own free directly, so nobody can see the call. What such an
 * object's other code does wrong is not the allocator's business.
 *
 * Owns nothing, allocates nothing, takes no lock. For handlers of signals. Finds nothing before
 * glibc 2.35.
 */
#ifndef HOMEFREE_ALLOC_OWNER_RELEASE_CRASH_H
#define HOMEFREE_ALLOC_OWNER_RELEASE_CRASH_H

#include <link.h>
#include <signal.h>
#include <stdbool.h>

struct hf_release_crash {
    const struct link_map *map; /* the object with the allocator */
    const void *code;           /* in it: where the innermost function of the object was */
    const void *block;          /* what it was given; NULL: no register tells */
};

/*
 * True if the code that was interrupted, or what had called libc's abort(), is one of a known
 * allocator's functions that free: by the name of a function of the object on the stack; or, where
 * functions have no names, because the address of the fault was computed from a block's address as
 * allocators compute the place of its header, or its entry in their table of pages. `is_block`
 * tells whether a value is the address of a block that may have been freed there. info, context:
 * the handler's.
 */
bool hf_release_crash_find(const siginfo_t *info, const void *context,
                           bool (*is_block)(const void *value, const struct link_map *map),
                           struct hf_release_crash *out);

#endif
