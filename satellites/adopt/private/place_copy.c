/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns this process's directories for copies and the list of cleaned directories. `lock` guards
 * both. Any thread may call; no function may be called from a signal handler.
 *
 * Constraint: other users may write to these directories (/tmp). Names are therefore created with
 * O_EXCL and mkdtemp, links are never followed, and a file is removed only if its owner and mode
 * show that it is ours and its maker is dead: the process ID is unused, or belongs to a process
 * with another start time.
 */
#include "satellites/adopt/private/place_copy.h"

#include "alloc/base/fork_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define FILE_PREFIX      ".homefree-"
#define DIRECTORY_PREFIX "homefree-"
#define FILE_MODE        0600

/* Processes of another container that shares the directory are not in our /proc, so whether they
 * live is unknown. Their files are kept for a week (seconds). */
#define FOREIGN_AGE 604800L

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

/* This process's own directories, one for each place but the first. */
static struct own_directory {
    char path[PATH_MAX];
    pid_t maker; /* 0: none; another process's ID after fork(2) */
} own_directories[HF_COPY_PLACES];

/* Directories that this process has cleaned. If there are more, they are cleaned again. */
static struct {
    dev_t device;
    ino_t inode;
} cleaned[64];
static size_t cleaned_count;

static unsigned long copies;

/* ---- processes ---- */

struct maker {
    unsigned long namespace;
    long pid;
    unsigned long long start; /* clock ticks since boot */
};

/* Gets a process's start time, 0 if unknown. Result: 0, or -ESRCH if there is no such process. */
static int start_of(long pid, unsigned long long *start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    *start = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT && access("/proc/self/stat", F_OK) == 0 ? -ESRCH : 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length < 0)
        return errno == ESRCH ? -ESRCH : 0;
    text[length] = '\0';
    /* The second field is the program's name in parentheses, which may contain any character. */
    const char *field = strrchr(text, ')');
    for (int i = 2; field != NULL && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (field != NULL)
        *start = strtoull(field, NULL, 10);
    return 0;
}

static struct maker self(void)
{
    struct stat status;
    struct maker maker = {0, (long)getpid(), 0};
    if (stat("/proc/self/ns/pid", &status) == 0)
        maker.namespace = (unsigned long)status.st_ino;
    (void)start_of(maker.pid, &maker.start);
    return maker;
}

static bool parse(const char *text, struct maker *maker)
{
    char *end;
    errno = 0;
    maker->namespace = strtoul(text, &end, 16);
    if (end == text || *end != '-')
        return false;
    text = end + 1;
    maker->pid = strtol(text, &end, 10);
    if (end == text || *end != '-' || maker->pid <= 0)
        return false;
    text = end + 1;
    maker->start = strtoull(text, &end, 10);
    return end != text && *end == '-' && errno == 0;
}

static bool is_dead(const struct maker *maker, const struct stat *status)
{
    struct maker own = self();
    if (maker->namespace != own.namespace)
        return time(NULL) - status->st_mtime > FOREIGN_AGE;
    unsigned long long start;
    if (start_of(maker->pid, &start) == -ESRCH)
        return true;
    return start != 0 && maker->start != 0 && start != maker->start;
}

/* ---- cleaning ---- */

/* A stream over the entries of an open directory, which stays open; NULL if it cannot be read. */
static DIR *open_entries(int directory)
{
    int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    if (stream == NULL && copy >= 0)
        close(copy);
    return stream;
}

/* Calls remove(directory, name) for each entry with that prefix that is ours and whose maker is
 * dead. */
static void clean(int directory, const char *prefix, mode_t type_and_mode,
                  void (*remove)(int directory, const char *name))
{
    DIR *stream = open_entries(directory);
    if (stream == NULL)
        return;
    size_t length = strlen(prefix);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        struct maker maker;
        struct stat status;
        if (strncmp(entry->d_name, prefix, length) != 0 || !parse(entry->d_name + length, &maker) ||
            fstatat(directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            status.st_uid != geteuid() || status.st_mode != type_and_mode ||
            !is_dead(&maker, &status))
            continue;
        remove(directory, entry->d_name);
    }
    closedir(stream);
}

static void remove_file(int directory, const char *name)
{
    (void)unlinkat(directory, name, 0);
}

static void remove_files(int directory)
{
    DIR *stream = open_entries(directory);
    if (stream == NULL)
        return;
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL)
        if (strncmp(entry->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0)
            remove_file(directory, entry->d_name);
    closedir(stream);
}

/* Removes a dead process's own directory. mkdtemp made it accessible to its user alone, so nobody
 * else has put files there. */
static void remove_directory(int directory, const char *name)
{
    struct stat status;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
        status.st_mode == (S_IFDIR | 0700)) {
        remove_files(fd);
        (void)unlinkat(directory, name, AT_REMOVEDIR);
    }
    close(fd);
}

static void clean_once(int directory)
{
    struct stat status;
    const size_t capacity = sizeof cleaned / sizeof cleaned[0];
    if (fstat(directory, &status) != 0)
        return;
    for (size_t i = 0; i < cleaned_count && i < capacity; i++)
        if (cleaned[i].device == status.st_dev && cleaned[i].inode == status.st_ino)
            return;
    cleaned[cleaned_count % capacity].device = status.st_dev;
    cleaned[cleaned_count++ % capacity].inode = status.st_ino;
    clean(directory, FILE_PREFIX, S_IFREG | FILE_MODE, remove_file);
    clean(directory, DIRECTORY_PREFIX, S_IFDIR | 0700, remove_directory);
}

/* ---- places ---- */

/* Returns whether only root and we can replace one of our files in the directory. */
static bool is_safe(int directory)
{
    struct stat status;
    if (fstat(directory, &status) != 0 || (status.st_uid != geteuid() && status.st_uid != 0))
        return false;
    return (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0;
}

/* Returns -EPERM, as mmap(2) would for code, if the file system forbids execution. */
static int check_executable(int directory)
{
    struct statvfs file_system;
    if (fstatvfs(directory, &file_system) != 0)
        return -errno;
    return (file_system.f_flag & ST_NOEXEC) != 0 ? -EPERM : 0;
}

int hf_copy_check_directory(int directory)
{
    return is_safe(directory) ? check_executable(directory) : -EACCES;
}

static int make_own_directory(struct own_directory *own, const char *base)
{
    if (own->maker == getpid())
        return 0;
    if (base == NULL || base[0] != '/')
        return -ENOENT;
    int directory = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    bool safe = is_safe(directory);
    if (safe)
        clean_once(directory);
    close(directory);
    if (!safe)
        return -EACCES;
    struct maker maker = self();
    own->maker = 0;
    int length = snprintf(own->path, sizeof own->path, "%s/" DIRECTORY_PREFIX "%lx-%ld-%llu-XXXXXX",
                          base, maker.namespace, maker.pid, maker.start);
    if (length < 0 || (size_t)length >= sizeof own->path)
        return -ENAMETOOLONG;
    if (mkdtemp(own->path) == NULL)
        return -errno;
    own->maker = getpid();
    return 0;
}

/* Writes the directory of a place to `out`. Result: 0 or a negative errno. */
static int directory_of(const char *original, int place, char out[PATH_MAX])
{
    const char *const bases[HF_COPY_PLACES] = {
        NULL, secure_getenv("XDG_RUNTIME_DIR"), secure_getenv("TMPDIR"), "/tmp", "/var/tmp",
    };
    if (place > 0) {
        int error = make_own_directory(&own_directories[place], bases[place]);
        if (error == 0)
            memcpy(out, own_directories[place].path, PATH_MAX);
        return error;
    }
    size_t length = (size_t)(strrchr(original, '/') - original);
    if (length == 0)
        length = 1;
    if (length >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(out, original, length);
    out[length] = '\0';
    return 0;
}

static int create(int directory, const char *directory_path, const char *original,
                  char path[PATH_MAX])
{
    int error = check_executable(directory);
    if (error != 0)
        return error;
    struct maker maker = self();
    const char *base = strrchr(original, '/') + 1;
    char name[NAME_MAX + 1];
    /* Keep the end of a long name: the module's suffix matters most. */
    const size_t shown = 160, base_length = strlen(base);
    const char *tail = base_length > shown ? base + base_length - shown : base;
    snprintf(name, sizeof name, FILE_PREFIX "%lx-%ld-%llu-%lu-%s", maker.namespace, maker.pid,
             maker.start, ++copies, tail);
    int length = snprintf(path, PATH_MAX, "%s/%s", directory_path, name);
    if (length < 0 || length >= PATH_MAX)
        return -ENAMETOOLONG;
    int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    return fd >= 0 ? fd : -errno;
}

int hf_copy_create(const char *original, int place, char path[PATH_MAX])
{
    char directory_path[PATH_MAX];
    pthread_mutex_lock(&lock);
    int result = directory_of(original, place, directory_path);
    if (result == 0) {
        int directory = open(directory_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0) {
            result = -errno;
        } else {
            clean_once(directory);
            result = create(directory, directory_path, original, path);
            close(directory);
        }
    }
    if (result < 0 && place > 0 && own_directories[place].maker == getpid() &&
        rmdir(own_directories[place].path) == 0)
        own_directories[place].maker = 0;
    pthread_mutex_unlock(&lock);
    return result;
}

int hf_copy_remove(const char *path, pid_t maker)
{
    if (maker != getpid())
        return 0;
    if (unlink(path) != 0 && errno != ENOENT)
        return -errno;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < HF_COPY_PLACES; i++)
        if (own_directories[i].maker == maker && rmdir(own_directories[i].path) == 0)
            own_directories[i].maker = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}
