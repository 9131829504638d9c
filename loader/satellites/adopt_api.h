/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of objects: what the hooks of dlopen() ask. Users call hf_adopt_file() (homefree/adopt.h)
 * and hf_private_copy() (homefree/private.h).
 */
#ifndef HOMEFREE_LOADER_SATELLITES_ADOPT_API_H
#define HOMEFREE_LOADER_SATELLITES_ADOPT_API_H

#include "loader/satellites/adopt_tables.h"

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* As hf_adopt_file(), but each file, the one at `path` and those that it needs, is adopted only if
 * the options select it (HOMEFREE_CONF=adopt). `out` has room for PATH_MAX bytes. `selected`:
 * whether the first one is. */
int hf_adopt_selected(const char *path, char *out, bool *selected);

/* The loaded copy that stands for a file: by the path from which it was made, under which the
 * dynamic linker would know the file whatever has become of it, or by the file that is there. */
bool hf_adopted_copy_of(const char *file, char copy[PATH_MAX]);

/* The original's directory, which $ORIGIN stands for, if the object is a private copy stored in
 * another directory; NULL otherwise. Takes no lock; the string is permanent. */
const char *hf_copied_from(const struct link_map *map);

/* An interpreter has ended, and no thread is in it any more: the private copies that it was lent
 * are made new, for the next one. Returns whether something of it, which is told, may use its
 * memory nevertheless. */
bool hf_lent_copies_ended(int64_t interpreter, hf_lent_leaver *tell, void *context);

/* The interpreter uses a loaded object that is not its alone. 0 or a negative errno. */
int hf_lent_copies_common(int64_t interpreter, void *handle);

/* The calling thread, which may have been in other interpreters, begins to work in this one. */
void hf_lent_copies_entered(int64_t interpreter);

#endif
