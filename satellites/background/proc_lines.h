/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of the kernel's line by line, without allocating: the process may have no memory left. Owns
 * nothing. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_BACKGROUND_PROC_LINES_H
#define HOMEFREE_SATELLITES_BACKGROUND_PROC_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct hf_proc_lines {
    int file;
    size_t begin, end; /* what was read, and not yet told */
    bool all;
    char buffer[4096];
};

/* Opens a file by the two parts of its path. */
bool hf_proc_open(struct hf_proc_lines *lines, const char *root, const char *path);
/* The next line, without its end, until the next call; NULL: there is none. The rest of a line that
 * is longer than the buffer is a line of its own. */
char *hf_proc_line(struct hf_proc_lines *lines);
void hf_proc_close(struct hf_proc_lines *lines);

#endif
