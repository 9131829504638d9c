/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See proc_lines.h.
 */
#include "satellites/background/proc_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool hf_proc_open(struct hf_proc_lines *lines, const char *root, const char *path)
{
    char whole[PATH_MAX + 64];
    const int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    lines->begin = lines->end = 0;
    lines->all = false;
    lines->file =
        length > 0 && (size_t)length < sizeof whole ? open(whole, O_RDONLY | O_CLOEXEC) : -1;
    return lines->file >= 0;
}

static void fill(struct hf_proc_lines *lines)
{
    ssize_t got;
    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    do
        got = read(lines->file, lines->buffer + lines->end, sizeof lines->buffer - 1 - lines->end);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        lines->end += (size_t)got;
    else
        lines->all = true;
}

char *hf_proc_line(struct hf_proc_lines *lines)
{
    char *line, *newline;
    for (;;) {
        line = lines->buffer + lines->begin;
        newline = memchr(line, '\n', lines->end - lines->begin);
        if (newline != NULL || lines->all ||
            (lines->begin == 0 && lines->end == sizeof lines->buffer - 1))
            break;
        fill(lines);
    }
    if (newline == NULL && lines->begin == lines->end)
        return NULL;
    if (newline == NULL)
        newline = lines->buffer + lines->end;
    *newline = '\0';
    lines->begin = (size_t)(newline - lines->buffer);
    lines->begin += lines->begin < lines->end;
    return line;
}

void hf_proc_close(struct hf_proc_lines *lines)
{
    close(lines->file);
}
