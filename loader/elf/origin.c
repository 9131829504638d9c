/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing. Variables are recognised as glibc does it (elf/dl-load.c, is_dst): a name in
 * braces, or a name that no letter, digit or underscore follows.
 */
#include "loader/elf/origin.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static bool continues_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The length of the variable that begins at `text`, including the dollar sign; 0 if it is not
 * `name`. */
static size_t match(const char *text, size_t length, const char *name)
{
    const size_t size = strlen(name);
    if (length > size + 2 && text[1] == '{')
        return memcmp(text + 2, name, size) == 0 && text[size + 2] == '}' ? size + 3 : 0;
    if (length <= size || memcmp(text + 1, name, size) != 0)
        return 0;
    return length > size + 1 && continues_name(text[size + 1]) ? 0 : size + 1;
}

struct hf_origin_use hf_origin_look(const char *text, size_t length)
{
    struct hf_origin_use use = {false, false, false, false};
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '$')
            continue;
        const size_t size = match(text + i, length - i, "ORIGIN");
        const bool first = i == 0 && (size == length || (size != 0 && text[size] == '/'));
        use.origin |= size != 0;
        use.first |= first;
        use.middle |= size != 0 && !first;
        use.others |=
            match(text + i, length - i, "LIB") != 0 || match(text + i, length - i, "PLATFORM") != 0;
    }
    return use;
}

int hf_origin_expand(const char *text, size_t length, const char *origin, char *out, size_t size)
{
    const size_t origin_length = strlen(origin);
    size_t written = 0;
    for (size_t i = 0; i < length;) {
        const size_t variable = text[i] == '$' ? match(text + i, length - i, "ORIGIN") : 0;
        const char *part = variable != 0 ? origin : text + i;
        const size_t part_length = variable != 0 ? origin_length : 1;
        if (part_length >= size - written)
            return -ENAMETOOLONG;
        memcpy(out + written, part, part_length);
        written += part_length;
        i += variable != 0 ? variable : 1;
    }
    if (written >= size)
        return -ENAMETOOLONG;
    out[written] = '\0';
    return (int)written;
}

int hf_origin_absolute(const char *path, char out[PATH_MAX])
{
    if (path == NULL || path[0] == '\0')
        return -EINVAL;
    size_t length = 0;
    if (path[0] != '/') {
        if (getcwd(out, PATH_MAX) == NULL)
            return -errno;
        length = strlen(out);
        out[length++] = '/';
    }
    if (strlen(path) >= PATH_MAX - length)
        return -ENAMETOOLONG;
    memcpy(out + length, path, strlen(path) + 1);
    return strrchr(out, '/')[1] == '\0' ? -EISDIR : 0;
}
