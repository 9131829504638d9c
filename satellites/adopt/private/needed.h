/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the libraries that an object needs lie, as the dynamic linker would search for them from
 * the object's directory. Owns nothing; any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_NEEDED_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_NEEDED_H

#include "loader/elf/elf_file.h"

#include <limits.h>

/*
 * Finds the file of a needed library on RPATH, LD_LIBRARY_PATH or RUNPATH, in the loader's order.
 * False if the library is in none of them: then it is in the default directories, or nowhere, or
 * its name is a path.
 */
bool hf_needed_find(struct hf_elf *elf, const char *directory, const char *name,
                    char out[PATH_MAX]);

#endif
