/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a private copy has outside of its own data: threads that it has started, thread-local
 * objects that threads destroy as they end, keys of thread-specific data, and what it has asked
 * CPython to call. The copy's calls of the functions that make these are watched, so that it is
 * known whether anything is left.
 *
 * Any thread. Watching begins while nobody else is in the copy, and never ends.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_OUTSIDE_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_OUTSIDE_H

#include "alloc/base/dynlink.h"
#include "loader/elf/elf_file.h"

struct hf_outside;

/* Whether a file imports such a function. 0 or a negative errno. */
int hf_outside_imported(struct hf_elf *elf, bool *imported);

/* The calling thread is about to load a copy. */
void hf_outside_expect(void);

/* Watches the copy that the calling thread has loaded since, of which only constructors have run.
 * Result: 0; -EBUSY: they have made keys already; or another negative errno. */
int hf_outside_watch(struct hf_outside **out, const struct link_map *map);

/* Destroys the calling thread's objects, waits a little for other threads that end, and takes back
 * calls that CPython has not made. Result: what is left nevertheless, or NULL. Nobody is in the
 * copy but those. */
const char *hf_outside_left(struct hf_outside *outside);

/* Whether the calling thread has objects to destroy. */
bool hf_outside_has_objects(const struct hf_outside *outside);

/* Calls what CPython was to call when it ends, before the copy's destructors run. */
void hf_outside_end(struct hf_outside *outside);

/* Gives back the keys, when the copy's destructors have run. */
void hf_outside_drop_keys(struct hf_outside *outside);

#endif
