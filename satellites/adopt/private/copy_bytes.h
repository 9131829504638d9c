/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that are copied. Owns nothing; needs libc alone. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_PRIVATE_COPY_BYTES_H
#define HOMEFREE_SATELLITES_ADOPT_PRIVATE_COPY_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Opens the original of a copy for reading: a descriptor or a negative errno. A FIFO, which would
 * block, or a device is -EINVAL, a directory -EISDIR. */
int hf_copy_open_original(const char *path);

/* Whether both describe the same file, which nobody has written to in between. */
bool hf_copy_is_same(const struct stat *one, const struct stat *other);

/* Whether the process may write a file of that size: past the limit (RLIMIT_FSIZE), a write ends it
 * by SIGXFSZ. */
bool hf_copy_fits(uint64_t size);

/* Copies a file's content, both descriptors being at offset 0. Shares the blocks if the file system
 * can. Result: 0 or a negative errno. */
int hf_copy_bytes(int from, int to);

#endif
