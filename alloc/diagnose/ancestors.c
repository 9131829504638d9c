/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See ancestors.h. An ancestor's report is a file that it has mapped. What /proc tells comes from
 * the kernel, but names of files and programs may hold anything.
 */
#include "alloc/diagnose/ancestors.h"

#include "alloc/diagnose/report_format.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANCESTORS_MAX = 16 };

static int open_of(pid_t process, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)process, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static pid_t parent_of(pid_t process)
{
    char text[512];
    int file = open_of(process, "stat");
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        (void)close(file);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    /* PID (NAME) STATE PARENT, where the name may hold parentheses. */
    const char *end = strrchr(text, ')');
    return end != NULL && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

/* The directory of a line of /proc/PID/maps that names a report, cut off from the rest. */
static const char *directory_in(char *line)
{
    const size_t suffix = strlen(HF_REPORT_SUFFIX), length = strlen(line);
    char *path = strchr(line, '/');
    if (path == NULL || length < suffix || strcmp(line + length - suffix, HF_REPORT_SUFFIX) != 0)
        return NULL;
    *strrchr(path, '/') = '\0';
    return path[0] == '/' ? path : NULL;
}

static bool read_directory(pid_t process, char *directory, size_t capacity)
{
    char text[PATH_MAX + 256]; /* holds every line */
    size_t held = 0;
    ssize_t got;
    const char *found = NULL;
    int file = open_of(process, "maps");
    if (file < 0)
        return false;
    while (found == NULL && (got = read(file, text + held, sizeof text - 1 - held)) > 0) {
        held += (size_t)got;
        text[held] = '\0';
        char *line = text, *end;
        while (found == NULL && (end = strchr(line, '\n')) != NULL) {
            *end = '\0';
            found = directory_in(line);
            line = end + 1;
        }
        if (found != NULL)
            break;
        held -= (size_t)(line - text);
        memmove(text, line, held);
    }
    (void)close(file);
    return found != NULL && snprintf(directory, capacity, "%s", found) < (int)capacity;
}

bool hf_ancestors_directory(char *directory, size_t capacity)
{
    const int saved_errno = errno;
    bool found = false;
    pid_t process = getppid();
    for (int i = 0; i < ANCESTORS_MAX && process > 1 && !found; i++) {
        found = read_directory(process, directory, capacity);
        process = parent_of(process);
    }
    if (!found)
        directory[0] = '\0';
    errno = saved_errno;
    return found;
}
