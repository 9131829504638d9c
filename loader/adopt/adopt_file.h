/*
 * Adopting what the options select (HOMEFREE_CONF=adopt). Users call hf_adopt_file()
 * (homefree/adopt.h).
 */
#ifndef HOMEFREE_ADOPT_FILE_H
#define HOMEFREE_ADOPT_FILE_H

#include <limits.h>
#include <stdbool.h>

/* As hf_adopt_file(), but each file, the one at `path` and those that it needs, is adopted only if
 * the options select it. `out` has room for PATH_MAX bytes. `selected`: whether the first one is.
 */
int hf_adopt_selected(const char *path, char *out, bool *selected);

/* The loaded copy that stands for a file: by the path from which it was made, under which the
 * dynamic linker would know the file whatever has become of it, or by the file that is there. */
bool hf_adopted_copy_of(const char *file, char copy[PATH_MAX]);

#endif
