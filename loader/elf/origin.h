/*
 * The dynamic linker's $ORIGIN, in file names and in search paths.
 */
#ifndef HOMEFREE_ORIGIN_H
#define HOMEFREE_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

/* The variables that occur in a text. */
struct hf_origin_use {
    bool origin; /* $ORIGIN or ${ORIGIN} */
    bool first;  /* it begins with one, and goes on with a slash or ends there */
    bool middle; /* there is one in another place */
    bool others; /* $LIB, $PLATFORM */
};
struct hf_origin_use hf_origin_look(const char *text, size_t length);

/*
 * Writes `length` bytes of text to `out`, with `origin` in the place of each $ORIGIN and ${ORIGIN}.
 * What glibc does not take for a variable stays as it is ("$ORIGINAL"), and so do $LIB and
 * $PLATFORM.
 * Result: the length of what was written, or -ENAMETOOLONG. Allocates nothing; any thread.
 */
int hf_origin_expand(const char *text, size_t length, const char *origin, char *out, size_t size);

#endif
