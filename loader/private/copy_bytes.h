/*
 * Files that are copied: their paths and their bytes. Owns nothing; needs libc alone. Any thread.
 */
#ifndef HOMEFREE_COPY_BYTES_H
#define HOMEFREE_COPY_BYTES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Opens the original of a copy for reading: a descriptor or a negative errno. A FIFO, which would
 * block, or a device is -EINVAL, a folder -EISDIR. */
int hf_copy_open_original(const char *path);

/* Whether the process may write a file of that size: past the limit (RLIMIT_FSIZE), a write ends it
 * by SIGXFSZ. */
bool hf_copy_fits(uint64_t size);

/* Copies a file's content, both descriptors being at offset 0. Shares the blocks if the file system
 * can. Result: 0 or a negative errno. */
int hf_copy_bytes(int from, int to);

/* Makes a path absolute but does not resolve it: $ORIGIN is the folder of the name that a file is
 * loaded by. Result: 0, -EINVAL, -EISDIR for one that ends in a slash, -ENAMETOOLONG. */
int hf_copy_absolute(const char *path, char out[PATH_MAX]);

#endif
