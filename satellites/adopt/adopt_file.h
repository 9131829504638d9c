/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hf_adopt_file() (homefree/adopt.h). Any thread, but not under the loader's lock.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_ADOPT_FILE_H
#define HOMEFREE_SATELLITES_ADOPT_ADOPT_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* `selected`: each file, the one at `path` and those that it needs, is adopted only if
 * HOMEFREE_CONF selects it. */
int hf_adopt_file_for(const char *path, char *out, size_t size, bool selected);

#endif
