/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See needed.h.
 */
#include "satellites/adopt/private/needed.h"

#include "loader/elf/origin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Builds a file's path from one entry of a search path, with $ORIGIN expanded. Result: false if it
 * is too long or contains another of the loader's variables. */
static bool expand(const char *directory, const char *entry, size_t length, const char *name,
                   char out[PATH_MAX])
{
    const int written = hf_origin_look(entry, length).others
                            ? -1
                            : hf_origin_expand(entry, length, directory, out, PATH_MAX);
    const size_t size = strlen(name) + 2;
    if (written < 0 || size > PATH_MAX - (size_t)written)
        return false;
    out[written] = '/';
    memcpy(out + written + 1, name, size - 1);
    return true;
}

/* Finds the first file of that name on a search path. */
static bool find_on(const char *path, const char *directory, const char *name, char out[PATH_MAX])
{
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        if (length != 0 && expand(directory, path, length, name, out) && access(out, R_OK) == 0)
            return true;
        path += length;
        path += *path == ':';
    }
    return false;
}

bool hf_needed_find(struct hf_elf *elf, const char *directory, const char *name, char out[PATH_MAX])
{
    const char *runpath = hf_elf_tag_string(elf, DT_RUNPATH);
    const char *rpath = runpath == NULL ? hf_elf_tag_string(elf, DT_RPATH) : NULL;
    return strchr(name, '/') == NULL && (find_on(rpath, directory, name, out) ||
                                         find_on(secure_getenv("LD_LIBRARY_PATH"), "", name, out) ||
                                         find_on(runpath, directory, name, out));
}
