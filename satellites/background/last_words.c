/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See last_words.h. The file, line by line, fields separated by blanks; numbers are bytes:
 *
 *   homefree-last-words 1
 *   time SECONDS                    since 1970
 *   process PID NAME
 *   resident BYTES
 *   cgroup USED LIMIT
 *   heap LIVE RESIDENT
 *   trimmed BEFORE AFTER ALLOCATOR FUNCTION OBJECT      "-": none
 *   mapping RESIDENT ADDRESS NAME   the largest first
 *   end
 */
#include "satellites/background/last_words.h"

#include "alloc/base/resident.h"
#include "satellites/background/background_core.h"
#include "satellites/background/proc_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <homefree/trim.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAPPINGS = 12, NAME = 128 };
struct mapping {
    uint64_t resident, start;
    char name[NAME];
};

static struct {
    size_t length;
    char bytes[16 << 10];
} text;
static struct mapping largest[MAPPINGS];
static char path[HF_PATH_MAX + 32], unfinished[HF_PATH_MAX + 48];

__attribute__((format(printf, 1, 2))) static void add(const char *format, ...)
{
    va_list arguments;
    const size_t left = sizeof text.bytes - text.length;
    va_start(arguments, format);
    const int length = vsnprintf(text.bytes + text.length, left, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t)length < left) /* what has no place is left out */
        text.length += (size_t)length;
}

/* ---- the file ---- */

/* "%p" stands for the process's number: a server's workers have the same option. */
static void make_paths(void)
{
    const char *from = hf_core()->options->last_words_path;
    const char *place = strstr(from, "%p");
    if (place != NULL)
        (void)snprintf(path, sizeof path, "%.*s%d%s", (int)(place - from), from, (int)getpid(),
                       place + 2);
    else
        (void)snprintf(path, sizeof path, "%s", from);
    (void)snprintf(unfinished, sizeof unfinished, "%s.%d", path, (int)getpid());
}

static void put_file(void)
{
    const int file =
        open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    size_t done = 0;
    while (done < text.length) {
        const ssize_t wrote = write(file, text.bytes + done, text.length - done);
        if (wrote <= 0 && errno != EINTR)
            break;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    close(file);
    if (done < text.length || rename(unfinished, path) != 0)
        (void)unlink(unfinished);
}

/* ---- what it says ---- */

static void add_process(void)
{
    char name[32] = "?\n";
    const uint64_t resident = hf_resident();
    const int file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, name, sizeof name - 1) <= 0)
        name[0] = '\n';
    close(file);
    add("process %d %s", (int)getpid(), name);
    if (resident != 0)
        add("resident %llu\n", (unsigned long long)resident);
}

static void add_head(const struct hf_cgroup_use *use)
{
    struct hf_stats stats = {.size = sizeof stats};
    text.length = 0;
    add("homefree-last-words 1\ntime %lld\n", (long long)time(NULL));
    add_process();
    add("cgroup %llu %llu\n", (unsigned long long)use->usage, (unsigned long long)use->limit);
    if (hf_core()->stats(&stats) == 0)
        add("heap %llu %llu\n", (unsigned long long)stats.allocated,
            (unsigned long long)stats.resident);
}

static void add_trimmed(const struct hf_trimmed *trimmed, void *unused)
{
    (void)unused;
    add("trimmed %llu %llu %s %s %s\n", (unsigned long long)trimmed->before,
        (unsigned long long)trimmed->after, trimmed->allocator,
        trimmed->how != NULL ? trimmed->how : "-", trimmed->object != NULL ? trimmed->object : "-");
}

static void note_mapping(const struct mapping *mapping)
{
    size_t at = MAPPINGS;
    while (at > 0 && largest[at - 1].resident < mapping->resident)
        at--;
    if (at == MAPPINGS)
        return;
    memmove(&largest[at + 1], &largest[at], (MAPPINGS - 1 - at) * sizeof largest[0]);
    largest[at] = *mapping;
}

/* "START-END RIGHTS OFFSET DEVICE INODE   NAME" */
static bool begins_mapping(const char *line, struct mapping *out)
{
    char *end;
    const uint64_t start = strtoull(line, &end, 16);
    if (end == line || *end != '-')
        return false;
    const char *name = line;
    for (int field = 0; field < 5 && name != NULL; field++)
        name = strchr(name + (field != 0), ' ');
    while (name != NULL && *name == ' ')
        name++;
    *out = (struct mapping){.start = start};
    (void)snprintf(out->name, sizeof out->name, "%s", name != NULL && *name != '\0' ? name : "-");
    return true;
}

static void add_mappings(void)
{
    static struct hf_proc_lines lines;
    struct mapping mapping = {.resident = 0};
    memset(largest, 0, sizeof largest);
    if (!hf_proc_open(&lines, "", "/proc/self/smaps"))
        return;
    for (const char *line; (line = hf_proc_line(&lines)) != NULL;)
        if (!begins_mapping(line, &mapping) && strncmp(line, "Rss:", 4) == 0) {
            mapping.resident = strtoull(line + 4, NULL, 10) * 1024;
            note_mapping(&mapping);
        }
    hf_proc_close(&lines);
    for (size_t i = 0; i < MAPPINGS && largest[i].resident != 0; i++)
        add("mapping %llu %llx %s\n", (unsigned long long)largest[i].resident,
            (unsigned long long)largest[i].start, largest[i].name);
}

void hf_last_words_write(const struct hf_cgroup_use *use)
{
    make_paths();
    add_head(use);
    const size_t head = text.length;
    add("end\n");
    put_file();
    text.length = head;
    (void)hf_core()->trim(add_trimmed, NULL);
    add_mappings();
    add("end\n");
    put_file();
}
