/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See preload.h. Owns nothing.
 */
#include "loader/command/program/preload.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *hf_preload_python(char *named)
{
    static char fallback[] = "python3";
    if (named == NULL)
        named = getenv(HF_PYTHON_VARIABLE);
    return named != NULL && named[0] != '\0' ? named : fallback;
}

char *hf_preload_self(void)
{
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    return length > 0 ? strndup(path, (size_t)length) : NULL;
}

char *hf_preload_directory(void)
{
    char *path = hf_preload_self();
    char *slash = path != NULL ? strrchr(path, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
        return path;
    }
    free(path);
    return NULL;
}

char *hf_preload_find_in(const char *const *places, const char *name)
{
    char path[2 * PATH_MAX], *self = hf_preload_directory(), *real = NULL;
    for (; real == NULL && self != NULL && *places != NULL; places++) {
        const bool absolute = **places == '/';
        const int written = snprintf(path, sizeof path, "%s%s%s/%s", absolute ? "" : self,
                                     absolute ? "" : "/", *places, name);
        real = written > 0 && (size_t)written < sizeof path ? realpath(path, NULL) : NULL;
    }
    free(self);
    return real;
}

char *hf_preload_find(const char *name)
{
    /* Relative to the command: the build directory, and the library directory of an installation,
     * also of one that was moved as a whole. A distribution's package has them in a directory
     * below, since they are not for the dynamic linker to find. */
    static const char *const places[] = {
        "..",     HF_COMMAND_LIBDIR,    (HF_COMMAND_LIBDIR "/homefree"),
        "../lib", HF_COMMAND_INSTALLED, NULL};
    return hf_preload_find_in(places, name);
}

const char *hf_preload_obstacle(const char *path)
{
    switch (path[strcspn(path, " :$\n")]) {
    case ' ':
        return "a space";
    case ':':
        return "a colon";
    case '$':
        return "a '$'";
    case '\n':
        return "a line break";
    default:
        return NULL;
    }
}

static bool is_one_of(const char *entry, size_t length, const char *const *names)
{
    const char *slash = memrchr(entry, '/', length);
    if (slash != NULL) {
        length -= (size_t)(slash + 1 - entry);
        entry = slash + 1;
    }
    for (; *names != NULL; names++) {
        const size_t known = strlen(*names);
        if (length >= known && memcmp(*names, entry, known) == 0 &&
            (length == known || entry[known] == '.'))
            return true;
    }
    return false;
}

char *hf_preload_before(const char *library, const char *list, const char *const *replaced)
{
    if (list == NULL)
        list = "";
    const size_t first = strlen(library);
    char *result = malloc(first + strlen(list) + 2);
    if (result == NULL)
        return NULL;
    memcpy(result, library, first);
    size_t at = first;
    for (; *list != '\0'; list += strspn(list, " :")) {
        const size_t length = strcspn(list, " :");
        if (length > 0 && !is_one_of(list, length, replaced)) {
            result[at++] = ':';
            memcpy(result + at, list, length);
            at += length;
        }
        list += length;
    }
    result[at] = '\0';
    return result;
}
