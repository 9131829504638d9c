/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private copies: each is a loaded object of its own with its own globals. Users call
 * hf_private_copy() and hf_private_remove() (homefree/private.h), on any thread but not under the
 * loader's lock.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_PRIVATE_COPY_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_PRIVATE_COPY_H

#include "alloc/base/dynlink.h"

#include <limits.h>
#include <stddef.h>

/*
 * Creates a file for a copy in the first place that will have one, calls fill(from, to, context),
 * and keeps the file until the process exits. `path` receives its path. Result: 0 or a negative
 * errno.
 */
int hf_copy_place(const char *original, char path[PATH_MAX],
                  int (*fill)(int from, int to, void *context), void *context);

/* hf_private_copy() and hf_private_remove(). */
int hf_private_copy_make(const char *path, char *out, size_t size);
int hf_private_copy_remove(const char *path);

/* Returns the original's directory, which $ORIGIN stands for, if the object is a private copy
 * stored in another directory; NULL otherwise. Takes no lock; the string is permanent. */
const char *hf_copy_directory(const struct link_map *map);

#endif
