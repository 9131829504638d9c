/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan for adopting a shared object that has an allocator of its own inside: which code leads
 * to which of homefree's functions in the object's adopted copy, so that nothing is left that could
 * hand out or take back the old allocator's memory. Or the reason why there is no such plan.
 *
 * The file is hostile; see image.h. Nothing is changed, loaded or run.
 *
 * Owns: the redirections, until hf_plan_close(). Names belong to the struct hf_elf of the object or
 * of its debug file, and functions to entries.def. Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_PLAN_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_PLAN_H

#include "satellites/adopt/hidden/functions.h"
#include "satellites/adopt/hidden/planned.h"

/* Prints a reason into the array `why`; the result is the error. */
#define HF_ADOPT_FAIL(why, ...) hf_adopt_fail(why, sizeof(why), __VA_ARGS__)
int hf_adopt_fail(char *why, size_t size, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * Makes the plan. Result: 0; -ENOENT if the object has no allocator whose entry points have names;
 * -ENOTSUP, with `why`, if some way into the allocator would stay open; -ENOEXEC or another
 * negative errno, with `why`, if the file cannot be read or understood.
 */
int hf_plan_make(struct hf_plan *plan, const struct hf_image *image,
                 const struct hf_functions *functions);
/* The same for an object whose allocator is in use already: always a release-only plan. */
int hf_plan_make_release_only(struct hf_plan *plan, const struct hf_image *image,
                              const struct hf_functions *functions);
void hf_plan_close(struct hf_plan *plan);

#endif
