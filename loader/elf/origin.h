/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expands the dynamic linker's $ORIGIN in file names and search paths. Owns nothing; any thread.
 */
#ifndef HOMEFREE_LOADER_ELF_ORIGIN_H
#define HOMEFREE_LOADER_ELF_ORIGIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The variables that a text contains. */
struct hf_origin_use {
    bool origin; /* $ORIGIN or ${ORIGIN} */
    bool first;  /* the text begins with one that is followed by a slash or the end */
    bool middle; /* there is one elsewhere */
    bool others; /* $LIB, $PLATFORM */
};
struct hf_origin_use hf_origin_look(const char *text, size_t length);

/*
 * Writes `length` bytes of text to `out`, with `origin` in place of each $ORIGIN and ${ORIGIN}.
 * $LIB, $PLATFORM and whatever glibc does not take for a variable ("$ORIGINAL") stay as they are.
 *
 * Returns the length of the result, or -ENAMETOOLONG. Allocates nothing; any thread.
 */
int hf_origin_expand(const char *text, size_t length, const char *origin, char *out, size_t size);

/* Makes a path absolute but does not resolve it: $ORIGIN is the directory of the name that a file
 * is loaded by. Result: 0, -EINVAL, -EISDIR for one that ends in a slash, -ENAMETOOLONG. */
int hf_origin_absolute(const char *path, char out[PATH_MAX]);

#endif
