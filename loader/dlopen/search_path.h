/*
 * Which file dlopen() would load for a caller: the folders that are searched for the caller's sake,
 * and the names that hold $ORIGIN.
 */
#ifndef HOMEFREE_SEARCH_PATH_H
#define HOMEFREE_SEARCH_PATH_H

#include "alloc/base/dynlink.h"

/*
 * Looks for a name without a slash in the folders that the dynamic linker searches for `caller` and
 * not for libhomefree, as it does: hardware subfolders first, and on to the next folder where the
 * file cannot be opened or is for another class or machine.
 * Result: the file's path, or NULL where none has it; hf_free() it. `skipped`: the path is that of
 * a file for another class, which dlopen() names in its message if nothing else is found.
 */
char *hf_search_for(const struct link_map *caller, const char *file, bool *skipped);

/*
 * A name with a slash, with the caller's folder in the place of $ORIGIN. A privileged process
 * expands it only where the dynamic linker does.
 * Result: the name, or NULL where it cannot be expanded (then dlopen() fails); hf_free() it.
 */
char *hf_search_expand(const struct link_map *caller, const char *file);

/* Lists the hardware subfolders of this machine. Called once, by the library's constructor, before
 * any slot leads to a stub. */
void hf_search_start(void);

#endif
