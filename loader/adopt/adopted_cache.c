/*
 * See adopted_cache.h. Owns nothing; takes no lock.
 *
 * Names: "KEY-NAME" for a copy, ".KEY-NAME.XXXXXX" while it is written. A process that dies
 * meanwhile leaves the latter behind; it is removed after an hour.
 */
#include "loader/adopt/adopted_cache.h"

#include "loader/foreign/adopted_note.h"
#include "loader/private/place_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    NAME_SHOWN = 120,  /* of the original's name: its end, with the module's suffix */
    UNFINISHED = 3600, /* seconds after which an unfinished file is nobody's */
    NOTE_ROOM = sizeof(struct hf_adopted_note) + PATH_MAX
};

/* Opens a folder below another one, and makes it if it is missing. */
static int open_below(int base, const char *name)
{
    if (mkdirat(base, name, 0700) != 0 && errno != EEXIST)
        return -errno;
    const int folder = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder >= 0 ? folder : -errno;
}

/* Replaces a descriptor by that of a folder below it. */
static int descend(int base, const char *name)
{
    const int folder = open_below(base, name);
    close(base);
    return folder;
}

static int open_folder(char *path, size_t size)
{
    if (getauxval(AT_SECURE) != 0)
        return -EPERM;
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    const bool named = cache != NULL && cache[0] == '/';
    if (!named && (home == NULL || home[0] != '/'))
        return -ENOENT;
    static const char below[] = "/homefree/adopted";
    const int length = snprintf(path, size, "%s%s", named ? cache : home, named ? "" : "/.cache");
    if (length < 0 || (size_t)length >= size - sizeof below)
        return -ENAMETOOLONG;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -errno;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    folder = descend(folder, "homefree");
    if (folder >= 0)
        folder = descend(folder, "adopted");
    if (folder < 0)
        return folder;
    memcpy(path + length, below, sizeof below);
    const int error = hf_copy_check_folder(folder);
    if (error == 0)
        return folder;
    close(folder);
    return error;
}

int hf_adopted_place_open(struct hf_adopted_place *place, const char *original,
                          const uint64_t key[2])
{
    char folder[PATH_MAX];
    place->unfinished[0] = '\0';
    place->folder = open_folder(folder, sizeof folder);
    if (place->folder < 0)
        return place->folder;
    const char *name = strrchr(original, '/') + 1;
    const size_t length = strlen(name);
    if (length > NAME_SHOWN)
        name += length - NAME_SHOWN;
    const int written = snprintf(place->path, sizeof place->path, "%s/%016llx%016llx-%s", folder,
                                 (unsigned long long)key[0], (unsigned long long)key[1], name);
    if (written > 0 && (size_t)written < sizeof place->path)
        return 0;
    hf_adopted_place_close(place);
    return -ENAMETOOLONG;
}

void hf_adopted_place_close(struct hf_adopted_place *place)
{
    if (place->folder >= 0)
        close(place->folder);
    place->folder = -1;
}

static const char *name_of(const struct hf_adopted_place *place)
{
    return strrchr(place->path, '/') + 1;
}

/* Reads the note of a file in the folder, if the file can be trusted. */
static bool read_note(int folder, const char *name, struct hf_adopted_note *note)
{
    struct stat status;
    const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool whole = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                       status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
                       hf_adopted_read(fd, note, NOTE_ROOM);
    close(fd);
    return whole;
}

bool hf_adopted_place_has(const struct hf_adopted_place *place, const char *original,
                          const uint64_t key[2])
{
    struct hf_adopted_note *note = malloc(NOTE_ROOM);
    const bool has = note != NULL && read_note(place->folder, name_of(place), note) &&
                     note->key[0] == key[0] && note->key[1] == key[1] &&
                     strcmp(note->original, original) == 0;
    free(note);
    return has;
}

int hf_adopted_place_create(struct hf_adopted_place *place)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        uint32_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            number = (uint32_t)getpid() + attempt;
        if (snprintf(place->unfinished, sizeof place->unfinished, ".%s.%08x", name_of(place),
                     number) >= (int)sizeof place->unfinished)
            return -ENAMETOOLONG;
        const int fd = openat(place->folder, place->unfinished,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

void hf_adopted_place_abandon(const struct hf_adopted_place *place)
{
    if (place->unfinished[0] != '\0')
        (void)unlinkat(place->folder, place->unfinished, 0);
}

/* Whether a copy is of no use any more: its original is gone, or `newer` is of the same one. */
static bool is_outdated(const struct hf_adopted_note *note, const struct hf_adopted_note *newer)
{
    return access(note->original, F_OK) != 0 ||
           (strcmp(note->original, newer->original) == 0 &&
            (note->key[0] != newer->key[0] || note->key[1] != newer->key[1]));
}

static void remove_outdated(const struct hf_adopted_place *place)
{
    struct hf_adopted_note *own = malloc(NOTE_ROOM), *note = malloc(NOTE_ROOM);
    const int copy = openat(place->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
    if (entries == NULL && copy >= 0)
        close(copy);
    const struct dirent *entry;
    while (entries != NULL && own != NULL && note != NULL &&
           read_note(place->folder, name_of(place), own) && (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (fstatat(place->folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode) || status.st_uid != geteuid())
            continue;
        if (entry->d_name[0] == '.'
                ? time(NULL) - status.st_mtime > UNFINISHED
                : read_note(place->folder, entry->d_name, note) && is_outdated(note, own))
            (void)unlinkat(place->folder, entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    free(own);
    free(note);
}

int hf_adopted_place_finish(struct hf_adopted_place *place)
{
    if (renameat(place->folder, place->unfinished, place->folder, name_of(place)) != 0)
        return -errno;
    place->unfinished[0] = '\0';
    remove_outdated(place);
    return 0;
}
