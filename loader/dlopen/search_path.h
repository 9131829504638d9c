/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the file that dlopen() would load for a caller: searches the directories that depend on the
 * caller and expands $ORIGIN in names.
 *
 * Any thread, once the heap has started; takes no lock of its own.
 */
#ifndef HOMEFREE_LOADER_DLOPEN_SEARCH_PATH_H
#define HOMEFREE_LOADER_DLOPEN_SEARCH_PATH_H

#include "alloc/base/dynlink.h"

/*
 * Searches for a name without a slash in the directories that the dynamic linker searches for
 * `caller` but not for libhomefree. Like the linker, tries hardware subdirectories first, and
 * continues with the next directory if a file cannot be opened or is for another class or machine.
 * Result: the file's path, to be freed with hf_free(), or NULL. `skipped`: the path names a file of
 * another class, which dlopen() mentions in its message if nothing else is found.
 */
char *hf_search_for(const struct link_map *caller, const char *file, bool *skipped);

/*
 * Expands $ORIGIN in a name with a slash to the caller's directory; in a privileged process only
 * where the dynamic linker does. Result: the name, to be freed with hf_free(), or NULL if it cannot
 * be expanded (dlopen() then fails).
 */
char *hf_search_expand(const struct link_map *caller, const char *file);

#endif
