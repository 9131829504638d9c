/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See cgroup.h.
 */
#include "satellites/background/cgroup.h"

#include "satellites/background/proc_lines.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- finding ---- */

static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (; list != NULL && *list != '\0'; list = strchr(list, ','), list += list != NULL)
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return true;
    return false;
}

/* The part of a line of /proc/self/cgroup behind its controllers, if it is the one. */
static char *own_path(char *line, bool first)
{
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL)
        return NULL;
    *path = '\0';
    const bool is_it = first ? has_word(controllers + 1, "memory")
                             : strncmp(line, "0:", 2) == 0 && path == controllers + 1;
    return is_it ? path + 1 : NULL;
}

static bool find_own(const char *root, bool first, char path[PATH_MAX])
{
    struct hf_proc_lines lines;
    bool found = false;
    if (!hf_proc_open(&lines, root, "/proc/self/cgroup"))
        return false;
    for (char *line; !found && (line = hf_proc_line(&lines)) != NULL;) {
        const char *own = own_path(line, first);
        found = own != NULL && memccpy(path, own, '\0', PATH_MAX) != NULL;
    }
    hf_proc_close(&lines);
    return found;
}

/* The kernel writes spaces and their kind as three octal digits. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text != '\0'; text++) {
        if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
            text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
            *to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
            text += 3;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/* A line of /proc/self/mountinfo: the mount's root and place, if it shows the cgroups. */
static bool is_mount(char *line, bool first, char **root, char **place)
{
    char *fields[5], *rest = line, *type;
    for (int i = 0; i < 5; i++)
        if ((fields[i] = strsep(&rest, " ")) == NULL)
            return false;
    rest = rest != NULL ? strstr(rest, " - ") : NULL;
    if (rest == NULL)
        return false;
    rest += 3;
    type = strsep(&rest, " ");
    (void)strsep(&rest, " "); /* what is mounted */
    *root = fields[3];
    *place = fields[4];
    return first ? strcmp(type, "cgroup") == 0 && has_word(rest, "memory")
                 : strcmp(type, "cgroup2") == 0;
}

/* A process in a container may see the tree from its own cgroup on, or by a path that leads
 * elsewhere: then the mount is its cgroup, as far as it can be known. */
static const char *below(const char *root, const char *own)
{
    const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const char *rest = own + length;
    if (strncmp(root, own, length) != 0 || (*rest != '/' && *rest != '\0') ||
        strstr(rest, "/..") != NULL || strcmp(rest, "/") == 0)
        return "";
    return rest;
}

static void find(const char *root, bool first, struct hf_cgroup *out)
{
    struct hf_proc_lines lines;
    char own[PATH_MAX], *mount_root, *place;
    out->found = false;
    out->is_first = first;
    if (!find_own(root, first, own) || !hf_proc_open(&lines, root, "/proc/self/mountinfo"))
        return;
    for (char *line; !out->found && (line = hf_proc_line(&lines)) != NULL;) {
        if (!is_mount(line, first, &mount_root, &place))
            continue;
        unescape(mount_root);
        unescape(place);
        const int length = snprintf(out->directory, sizeof out->directory, "%s%s%s", root, place,
                                    below(mount_root, own));
        out->top = strlen(root) + strlen(place);
        out->found = length > 0 && (size_t)length < sizeof out->directory;
    }
    hf_proc_close(&lines);
}

/* ---- reading ---- */

#define UNLIMITED ((uint64_t)1 << 62) /* what version 1 says is 2^63, less a page */

/* A number in a file below the first `length` bytes of the directory; UINT64_MAX: none, or "max".
 */
static uint64_t number_in(const struct hf_cgroup *cgroup, size_t length, const char *name)
{
    char path[PATH_MAX + 64], text[32];
    (void)snprintf(path, sizeof path, "%.*s/%s", (int)length, cgroup->directory, name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return UINT64_MAX;
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got > 0 ? got : 0] = '\0';
    return text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* File pages that go before anybody has to die. */
static uint64_t inactive_in(const struct hf_cgroup *cgroup, size_t length)
{
    struct hf_proc_lines lines;
    char path[PATH_MAX + 64];
    const char *name = cgroup->is_first ? "total_inactive_file " : "inactive_file ";
    uint64_t bytes = 0;
    (void)snprintf(path, sizeof path, "%.*s/memory.stat", (int)length, cgroup->directory);
    if (!hf_proc_open(&lines, "", path))
        return 0;
    for (char *line; (line = hf_proc_line(&lines)) != NULL;)
        if (strncmp(line, name, strlen(name)) == 0) {
            bytes = strtoull(line + strlen(name), NULL, 10);
            break;
        }
    hf_proc_close(&lines);
    return bytes;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void find_limits(struct hf_cgroup *cgroup)
{
    size_t length = strlen(cgroup->directory);
    cgroup->count = 0;
    for (;;) {
        const uint64_t limit = cgroup->is_first ? number_in(cgroup, length, "memory.limit_in_bytes")
                                                : least(number_in(cgroup, length, "memory.max"),
                                                        number_in(cgroup, length, "memory.high"));
        if (limit < UNLIMITED && cgroup->count < HF_CGROUP_LEVELS)
            cgroup->levels[cgroup->count++] = (struct hf_cgroup_level){length, limit};
        if (length <= cgroup->top)
            return;
        while (length > cgroup->top && cgroup->directory[length - 1] != '/')
            length--;
        length -= length > cgroup->top;
    }
}

void hf_cgroup_find(const char *root, bool unified, struct hf_cgroup *out)
{
    out->found = false;
    if (!unified)
        find(root, true, out);
    if (!out->found)
        find(root, false, out);
    if (out->found)
        find_limits(out);
}

static bool read_level(const struct hf_cgroup *cgroup, const struct hf_cgroup_level *level,
                       struct hf_cgroup_use *out)
{
    const uint64_t usage = number_in(cgroup, level->length,
                                     cgroup->is_first ? "memory.usage_in_bytes" : "memory.current");
    if (usage == UINT64_MAX)
        return false;
    *out = (struct hf_cgroup_use){.usage = usage, .limit = level->limit};
    /* Reading it takes longer than the rest, and matters near the limit only. */
    if (level->limit != 0 && usage >= level->limit / 2)
        out->usage -= least(inactive_in(cgroup, level->length), usage);
    return true;
}

static bool is_nearer(const struct hf_cgroup_use *a, const struct hf_cgroup_use *b)
{
    return (double)a->usage * (double)b->limit > (double)b->usage * (double)a->limit;
}

bool hf_cgroup_read(const struct hf_cgroup *cgroup, struct hf_cgroup_use *out)
{
    bool any = false;
    *out = (struct hf_cgroup_use){0, 0};
    if (!cgroup->found)
        return false;
    if (cgroup->count == 0) {
        const struct hf_cgroup_level own = {strlen(cgroup->directory), 0};
        return read_level(cgroup, &own, out);
    }
    for (size_t i = 0; i < cgroup->count; i++) {
        struct hf_cgroup_use use;
        if (!read_level(cgroup, &cgroup->levels[i], &use))
            continue;
        if (!any || is_nearer(&use, out))
            *out = use;
        any = true;
    }
    return any;
}
