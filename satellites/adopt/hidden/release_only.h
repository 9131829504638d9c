/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Release-only: what can be had of an object whose allocator the heap cannot replace, because
 * something that has no like on the heap uses it (heaps of its own, an alignment inside of a
 * block). The allocator goes on serving its object. Its functions that take a block ask for the
 * block's owner first, so memory of libc's or of the heap that reaches them goes home.
 *
 * Stateless. Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_RELEASE_ONLY_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_RELEASE_ONLY_H

#include "satellites/adopt/hidden/entries.h"
#include "satellites/adopt/hidden/planned.h"
#include "satellites/adopt/hidden/reach.h"

/*
 * Called after a plan was refused with -ENOTSUP. If nothing else than the functions with a guard
 * can be given a block, changes the plan: its redirections are those, and `release_only` is true,
 * while `why` still says why it is no more than that. Otherwise leaves the plan as it is. Result:
 * 0, -ENOTSUP or another negative errno.
 */
int hf_release_only_plan(struct hf_plan *plan, const struct hf_image *image,
                         const struct hf_functions *functions, struct hf_reach *reach,
                         const struct hf_entry_names *names);

/* The function of libhomefree's that guards ask. */
#define HF_RELEASE_ONLY_QUESTION "hf_adopted_elsewhere"

#endif
