/*
 * Adopting what the options select (HOMEFREE_CONF=adopt). Users call hf_adopt_file()
 * (homefree/adopt.h).
 */
#ifndef HOMEFREE_ADOPT_FILE_H
#define HOMEFREE_ADOPT_FILE_H

#include <stdbool.h>

/* As hf_adopt_file(), but each file, the one at `path` and those that it needs, is adopted only if
 * the options select it. `out` has room for PATH_MAX bytes. `selected`: whether the first one is.
 */
int hf_adopt_selected(const char *path, char *out, bool *selected);

#endif
