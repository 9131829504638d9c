/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See live_process.h.
 */
#include "loader/command/live/live_process.h"

#include "loader/command/command.h"
#include "loader/command/grown.h"
#include "loader/elf/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { MAPS_MOST = 64 << 20, ENVIRONMENT_MOST = 8 << 20, READ_FIRST = 1 << 16, STAT_ROOM = 1024 };
enum { PF_KTHREAD = 0x00200000, SAME_BYTES = 512 };
enum { SECONDS_MOST = 30 };

/* ---- files below /proc/PID ------------------------------------------------------------------ */

/* Reads a file as a whole; it ends with a zero byte that does not count. NULL with errno set. */
static char *read_whole(const struct hf_live_process *process, const char *name, size_t most,
                        size_t *length)
{
    const int file = openat(process->directory, name, O_RDONLY | O_CLOEXEC);
    size_t capacity = READ_FIRST;
    char *text = file >= 0 ? malloc(capacity) : NULL;
    *length = 0;
    while (text != NULL) {
        const ssize_t got = read(file, text + *length, capacity - *length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            const int error = errno;
            free(text);
            close(file);
            errno = error;
            return NULL;
        }
        *length += (size_t)got;
        if (got == 0 || *length >= most)
            break;
        if (capacity - *length > READ_FIRST / 2)
            continue;
        char *larger = realloc(text, capacity * 2);
        if (larger == NULL)
            break;
        text = larger;
        capacity *= 2;
    }
    if (text != NULL)
        text[*length] = '\0';
    if (file >= 0) {
        const int error = errno;
        close(file);
        errno = error;
    }
    return text;
}

/* ---- what kind of process it is ------------------------------------------------------------- */

/* A process number as the user types it; 0 if it is none. */
static pid_t read_number(const char *text)
{
    int64_t number = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || number > INT_MAX)
            return 0;
        number = number * 10 + (*at - '0');
    }
    return number > 0 && number <= INT_MAX ? (pid_t)number : 0;
}

struct kind {
    char state;
    bool kernel;
};

/* PID (NAME) STATE PARENT GROUP SESSION TERMINAL TERMINAL-GROUP FLAGS …; the name may contain
 * anything. */
static bool read_kind(const struct hf_live_process *process, struct kind *out)
{
    enum { BEFORE_FLAGS = 6 };
    size_t length;
    char *text = read_whole(process, "stat", STAT_ROOM, &length);
    const char *at = text != NULL ? strrchr(text, ')') : NULL;
    const bool good = at != NULL && at[1] == ' ' && at[2] != '\0';
    if (good) {
        out->state = at[2];
        at += 1;
        for (int i = 0; i < BEFORE_FLAGS && at != NULL; i++)
            at = strchr(at + 1, ' ');
        out->kernel = at != NULL && (strtoul(at, NULL, 10) & PF_KTHREAD) != 0;
    }
    free(text);
    return good;
}

/* The process that a thread belongs to; itself, if it is one. */
static pid_t read_leader(const struct hf_live_process *process)
{
    static const char key[] = "\nTgid:";
    size_t length;
    char *text = read_whole(process, "status", READ_FIRST, &length);
    const char *line = text != NULL ? strstr(text, key) : NULL;
    const pid_t leader =
        line != NULL ? (pid_t)strtol(line + sizeof key - 1, NULL, 10) : process->pid;
    free(text);
    return leader;
}

/* ---- mappings ------------------------------------------------------------------------------- */

/* The kernel writes a newline in a name as \012. */
static void decode_path(char *path)
{
    char *to = path;
    for (const char *at = path; *at != '\0'; at++) {
        *to = *at;
        if (strncmp(at, "\\012", 4) == 0) {
            *to = '\n';
            at += 3;
        }
        to++;
    }
    *to = '\0';
}

/* Reads a number that is followed by `end`, and steps over both. */
static bool take_number(char **at, int base, char end, uint64_t *out)
{
    char *next;
    errno = 0;
    *out = strtoull(*at, &next, base);
    if (next == *at || *next != end || errno != 0)
        return false;
    *at = next + 1;
    return true;
}

/* START-END FLAGS OFFSET MAJOR:MINOR INODE PATH, with several blanks before the path. */
static bool read_mapping(char *line, struct hf_live_mapping *out)
{
    enum { FLAGS = 4 };
    static const char gone[] = " (deleted)";
    uint64_t major_number, minor_number;
    char *at = line;
    *out = (struct hf_live_mapping){.path = ""};
    if (!take_number(&at, 16, '-', &out->start) || !take_number(&at, 16, ' ', &out->end) ||
        out->start >= out->end || strcspn(at, " ") != FLAGS || at[FLAGS] != ' ')
        return false;
    out->writable = at[1] == 'w';
    out->executable = at[2] == 'x';
    out->shared = at[3] == 's';
    at += FLAGS + 1;
    if (!take_number(&at, 16, ' ', &out->offset) || !take_number(&at, 16, ':', &major_number) ||
        !take_number(&at, 16, ' ', &minor_number) || !take_number(&at, 10, ' ', &out->inode))
        return false;
    out->device = makedev((unsigned)major_number, (unsigned)minor_number);
    char *path = at + strspn(at, " ");
    decode_path(path);
    const size_t length = strlen(path);
    if (out->inode != 0 && length > sizeof gone - 1 &&
        strcmp(path + length - (sizeof gone - 1), gone) == 0) {
        path[length - (sizeof gone - 1)] = '\0';
        out->deleted = true;
    }
    out->path = path;
    return true;
}

static bool read_mappings(struct hf_live_process *process)
{
    size_t length;
    process->maps = read_whole(process, "maps", MAPS_MOST, &length);
    if (process->maps == NULL)
        return false;
    for (char *line = process->maps, *next; line != NULL && *line != '\0'; line = next) {
        struct hf_live_mapping mapping;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        if (!read_mapping(line, &mapping) ||
            (process->mappings_count > 0 &&
             mapping.start < process->mappings[process->mappings_count - 1].end))
            continue; /* the process changed it between two pages of the text */
        struct hf_live_mapping *larger =
            hf_grown(process->mappings, process->mappings_count, sizeof mapping);
        if (larger == NULL)
            return false;
        process->mappings = larger;
        process->mappings[process->mappings_count++] = mapping;
    }
    return true;
}

/* ---- memory --------------------------------------------------------------------------------- */

bool hf_live_read(const struct hf_live_process *process, uint64_t address, void *buffer,
                  size_t size)
{
    size_t done = 0;
    if (process->memory < 0 || address > INT64_MAX || size > INT64_MAX - address)
        return false;
    while (done < size) {
        const ssize_t got =
            pread(process->memory, (char *)buffer + done, size - done, (off_t)(address + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

bool hf_live_allow_writes(struct hf_live_process *process)
{
    const int memory = openat(process->directory, "mem", O_RDWR | O_CLOEXEC);
    if (memory < 0)
        return false;
    if (process->memory >= 0)
        close(process->memory);
    process->memory = memory;
    return true;
}

static bool is_its_own(const struct hf_live_process *process, uint64_t address, size_t size)
{
    for (size_t i = 0; i < process->mappings_count; i++) {
        const struct hf_live_mapping *mapping = &process->mappings[i];
        if (address >= mapping->start && address < mapping->end)
            return mapping->writable && !mapping->shared && size <= mapping->end - address;
    }
    return false;
}

bool hf_live_write(const struct hf_live_process *process, uint64_t address, const void *buffer,
                   size_t size)
{
    return process->memory >= 0 && address <= INT64_MAX && is_its_own(process, address, size) &&
           pwrite(process->memory, buffer, size, (off_t)address) == (ssize_t)size;
}

bool hf_live_read_string(const struct hf_live_process *process, uint64_t address, char *buffer,
                         size_t capacity)
{
    enum { PAGE = 4096 };
    for (size_t done = 0; done < capacity;) {
        const size_t left = PAGE - (size_t)((address + done) % PAGE); /* the next may be missing */
        const size_t part = left < capacity - done ? left : capacity - done;
        if (!hf_live_read(process, address + done, buffer + done, part))
            return false;
        if (memchr(buffer + done, '\0', part) != NULL)
            return true;
        done += part;
    }
    return false;
}

/* ---- files ---------------------------------------------------------------------------------- */

enum { OPEN = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, FIND = O_PATH | O_CLOEXEC };

/* Opens what a descriptor of FIND has found, and closes that. Opening a device may do something,
 * and the process chooses the path. */
static int open_regular(int found)
{
    char name[64];
    struct stat status;
    if (found < 0)
        return -errno;
    int file = -EINVAL;
    snprintf(name, sizeof name, "/proc/self/fd/%d", found);
    if (fstat(found, &status) == 0 && S_ISREG(status.st_mode)) {
        file = open(name, OPEN);
        file = file >= 0 ? file : -errno;
    }
    close(found);
    return file;
}

/* By a path below its root, with links that stay there. */
static int open_in_root(const struct hf_live_process *process, const char *path)
{
    if (process->root < 0 || path[0] != '/')
        return -ENOENT;
    const int file = hf_open_in_root(process->root, path, FIND);
    /* Linux before 5.6, or a sandbox. */
    if ((file == -ENOSYS || file == -EPERM) && process->root_is_ours)
        return open_regular(open(path, FIND));
    if (file < 0)
        errno = -file;
    return open_regular(file);
}

int hf_live_open_path(const struct hf_live_process *process, const char *path)
{
    const int file = open_in_root(process, path);
    return file >= 0 || process->root_is_ours || path[0] != '/' ? file
                                                                : open_regular(open(path, FIND));
}

/* Some file systems give a mapping another device than stat(2), and then the inode may differ, too.
 * The memory decides where it can be read. */
static bool is_the_one(const struct hf_live_process *process, const struct hf_live_mapping *mapping,
                       int file)
{
    unsigned char there[SAME_BYTES], here[SAME_BYTES];
    struct stat status;
    if (fstat(file, &status) != 0)
        return false;
    if ((uint64_t)status.st_ino == mapping->inode)
        return true;
    return (uint64_t)status.st_dev != mapping->device && !mapping->writable &&
           hf_live_read(process, mapping->start, there, sizeof there) &&
           pread(file, here, sizeof here, (off_t)mapping->offset) == (ssize_t)sizeof here &&
           memcmp(here, there, sizeof here) == 0;
}

int hf_live_open_file(const struct hf_live_process *process, const struct hf_live_mapping *mapping)
{
    char name[64];
    struct stat status;
    int file = -1;
    snprintf(name, sizeof name, "map_files/%" PRIx64 "-%" PRIx64, mapping->start, mapping->end);
    /* With privileges, the kernel gives the very file. */
    if (fstatat(process->directory, name, &status, 0) == 0 && S_ISREG(status.st_mode))
        file = openat(process->directory, name, OPEN);
    if (file < 0 && fstatat(process->directory, "exe", &status, 0) == 0 &&
        S_ISREG(status.st_mode) && (uint64_t)status.st_ino == mapping->inode)
        file = openat(process->directory, "exe", OPEN);
    if (file >= 0)
        return file;
    if (mapping->deleted || mapping->path[0] != '/')
        return -ENOENT;
    file = open_in_root(process, mapping->path);
    if (file >= 0 && is_the_one(process, mapping, file))
        return file;
    if (file >= 0)
        close(file);
    /* In another namespace of mounts, or in a changed root, this path may be one of ours. */
    file = open_regular(open(mapping->path, FIND));
    if (file < 0 || is_the_one(process, mapping, file))
        return file;
    close(file);
    return -ENOENT;
}

bool hf_live_variable(const struct hf_live_process *process, const char *name, char *out,
                      size_t capacity)
{
    size_t length;
    const size_t name_length = strlen(name);
    char *text = read_whole(process, "environ", ENVIRONMENT_MOST, &length);
    bool found = false;
    for (size_t at = 0; text != NULL && at < length && !found; at += strlen(text + at) + 1) {
        if (strncmp(text + at, name, name_length) != 0 || text[at + name_length] != '=')
            continue;
        const char *value = text + at + name_length + 1;
        found = strlen(value) < capacity;
        if (!found)
            break;
        memcpy(out, value, strlen(value) + 1);
    }
    free(text);
    return found;
}

/* ---- time ----------------------------------------------------------------------------------- */

static int64_t seconds(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec;
}

bool hf_live_takes_too_long(const struct hf_live_process *process)
{
    return seconds() > process->deadline;
}

/* ---- opening -------------------------------------------------------------------------------- */

static int gone(const char *who, pid_t pid)
{
    hf_command_complain(who, "there is no process %d", (int)pid);
    return HF_EXIT_FAILED;
}

static int fail(const char *who, pid_t pid, int error)
{
    if (error == EACCES || error == EPERM)
        hf_command_complain(who,
                            "process %d may not be examined: run this command as root, or as the "
                            "user of the process if it has no privileges of its own",
                            (int)pid);
    else if (error == ENOENT || error == ESRCH)
        return gone(who, pid);
    else
        hf_command_complain(who, "cannot examine process %d: %s", (int)pid, strerror(error));
    return HF_EXIT_FAILED;
}

static const char *why_unreadable(int error)
{
    FILE *yama = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    const int scope = yama != NULL ? fgetc(yama) : '0';
    if (yama != NULL)
        fclose(yama);
    if ((error == EACCES || error == EPERM) && scope >= '1' && scope <= '9')
        return "kernel.yama.ptrace_scope forbids it; root may";
    if (error == EACCES || error == EPERM)
        return "that needs the privileges of a debugger; root has them";
    return strerror(error);
}

static void open_root(struct hf_live_process *process)
{
    struct stat its, ours;
    process->root = openat(process->directory, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    process->root_is_ours = process->root >= 0 && fstat(process->root, &its) == 0 &&
                            stat("/", &ours) == 0 && its.st_dev == ours.st_dev &&
                            its.st_ino == ours.st_ino;
    /* The same directory in another namespace of mounts shows other files. */
    char theirs[64], own[64];
    const ssize_t length = readlinkat(process->directory, "ns/mnt", theirs, sizeof theirs);
    if (process->root_is_ours &&
        (length <= 0 || readlink("/proc/self/ns/mnt", own, sizeof own) != length ||
         memcmp(theirs, own, (size_t)length) != 0))
        process->root_is_ours = false;
}

static int open_process(const char *who, struct hf_live_process *process)
{
    char name[32];
    struct kind kind;
    snprintf(name, sizeof name, "/proc/%d", (int)process->pid);
    process->directory = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process->directory < 0 && access("/proc/self/stat", R_OK) != 0) {
        hf_command_complain(who, "/proc is not mounted, and nothing else shows a process");
        return HF_EXIT_FAILED;
    }
    if (process->directory < 0 || !read_kind(process, &kind))
        return fail(who, process->pid, errno);
    const pid_t leader = read_leader(process);
    if (leader != process->pid) {
        hf_command_complain(who, "%d is a thread; its process is %d", (int)process->pid,
                            (int)leader);
        return HF_EXIT_FAILED;
    }
    if (kind.kernel) {
        hf_command_complain(who, "process %d belongs to the kernel and has no memory of its own",
                            (int)process->pid);
        return HF_EXIT_FAILED;
    }
    if (kind.state == 'Z' || kind.state == 'X') {
        hf_command_complain(who, "process %d has ended; its parent has not waited for it yet",
                            (int)process->pid);
        return HF_EXIT_FAILED;
    }
    process->memory = openat(process->directory, "mem", O_RDONLY | O_CLOEXEC);
    if (process->memory < 0)
        process->unreadable = why_unreadable(errno);
    errno = ESRCH;
    if (!read_mappings(process))
        return errno == ENOMEM ? hf_command_out_of_memory(who) : fail(who, process->pid, errno);
    if (process->mappings_count == 0) {
        hf_command_complain(who, "process %d is ending", (int)process->pid);
        return HF_EXIT_FAILED;
    }
    open_root(process);
    return HF_EXIT_NONE;
}

int hf_live_open(const char *who, const char *text, struct hf_live_process *out)
{
    *out = (struct hf_live_process){
        .pid = read_number(text), .directory = -1, .root = -1, .memory = -1};
    out->deadline = seconds() + SECONDS_MOST;
    if (out->pid == 0) {
        hf_command_complain(who, "'%s' is not a process number", text);
        return HF_EXIT_USAGE;
    }
    const int status = open_process(who, out);
    if (status != HF_EXIT_NONE)
        hf_live_close(out);
    return status;
}

void hf_live_close(struct hf_live_process *process)
{
    const int descriptors[] = {process->directory, process->root, process->memory};
    for (size_t i = 0; i < sizeof descriptors / sizeof descriptors[0]; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    process->directory = process->root = process->memory = -1;
    free(process->mappings);
    free(process->maps);
    process->mappings = NULL;
    process->mappings_count = 0;
    process->maps = NULL;
}

bool hf_live_runs(const struct hf_live_process *process)
{
    struct kind kind;
    return read_kind(process, &kind) && kind.state != 'Z' && kind.state != 'X';
}
