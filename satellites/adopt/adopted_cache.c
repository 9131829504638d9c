/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See adopted_cache.h. Owns what this process knows about files, which only grows; takes no lock.
 *
 * Names: "nothing-inside" for the keys of files without an allocator, "KEY-NAME" for a copy,
 * "KEY-NAME.refused" for a refusal, ".KEY-NAME.XXXXXX" while one is written. A process that dies
 * meanwhile leaves the latter behind; it is removed after an hour.
 */
#include "satellites/adopt/adopted_cache.h"

#include "loader/foreign/adopted_note.h"
#include "satellites/adopt/private/copy_bytes.h"
#include "satellites/adopt/private/place_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
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
    NOTE_ROOM = sizeof(struct hf_adopted_note) + PATH_MAX + HF_ADOPTED_WHY_MAX
};

/*
 * The file of a refusal: this mark, null included; a note, of which only `key` and `file_size` mean
 * the same as in a copy, and `slots` is the errno; the original's path; the reason.
 */
static const char refusal_mark[] = "homefree refused";
#define REFUSAL_SUFFIX ".refused"

/* Opens a directory below another one, and makes it if it is missing. */
static int open_below(int base, const char *name)
{
    if (mkdirat(base, name, 0700) != 0 && errno != EEXIST)
        return -errno;
    const int directory = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return directory >= 0 ? directory : -errno;
}

/* Replaces a descriptor by that of a directory below it. */
static int descend(int base, const char *name)
{
    const int directory = open_below(base, name);
    close(base);
    return directory;
}

static int open_directory(char *path, size_t size)
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
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    directory = descend(directory, "homefree");
    if (directory >= 0)
        directory = descend(directory, "adopted");
    if (directory < 0)
        return directory;
    memcpy(path + length, below, sizeof below);
    const int error = hf_copy_check_directory(directory);
    if (error == 0)
        return directory;
    close(directory);
    return error;
}

int hf_adopted_place_open(struct hf_adopted_place *place, const char *original,
                          const uint64_t key[2])
{
    char directory[PATH_MAX];
    place->unfinished[0] = '\0';
    place->directory = open_directory(directory, sizeof directory);
    if (place->directory < 0)
        return place->directory;
    const char *name = strrchr(original, '/') + 1;
    const size_t length = strlen(name);
    if (length > NAME_SHOWN)
        name += length - NAME_SHOWN;
    const int written = snprintf(place->path, sizeof place->path, "%s/%016llx%016llx-%s", directory,
                                 (unsigned long long)key[0], (unsigned long long)key[1], name);
    if (written > 0 && (size_t)written < sizeof place->path)
        return 0;
    hf_adopted_place_close(place);
    return -ENAMETOOLONG;
}

void hf_adopted_place_close(struct hf_adopted_place *place)
{
    if (place->directory >= 0)
        close(place->directory);
    place->directory = -1;
}

static const char *name_of(const struct hf_adopted_place *place)
{
    return strrchr(place->path, '/') + 1;
}

/* Whether nobody but the user can have written a file. */
static bool is_own(int descriptor, struct stat *status)
{
    return fstat(descriptor, status) == 0 && S_ISREG(status->st_mode) &&
           status->st_uid == geteuid() && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads the note of a copy. False if it is no whole adopted copy. */
static bool read_copy(int descriptor, const struct stat *status, struct hf_adopted_note *out,
                      size_t size)
{
    Elf64_Ehdr header;
    struct {
        Elf64_Nhdr header;
        char name[HF_ADOPTED_NAME_SIZE];
    } start;
    if (size <= sizeof *out ||
        pread(descriptor, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return false;
    const off_t note = (off_t)(header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
    if (note < 0 || pread(descriptor, &start, sizeof start, note) != (ssize_t)sizeof start ||
        start.header.n_type != HF_ADOPTED_TYPE ||
        start.header.n_namesz != sizeof HF_ADOPTED_OWNER ||
        memcmp(start.name, HF_ADOPTED_OWNER, sizeof HF_ADOPTED_OWNER) != 0 ||
        start.header.n_descsz <= sizeof *out || start.header.n_descsz > size)
        return false;
    if (pread(descriptor, out, start.header.n_descsz, note + (off_t)sizeof start) !=
        (ssize_t)start.header.n_descsz)
        return false;
    ((char *)out)[start.header.n_descsz - 1] = '\0';
    return out->file_size == (uint64_t)status->st_size;
}

/* Reads the note of a refusal, which is smaller than NOTE_ROOM, with the text behind it. */
static bool read_refusal(int descriptor, const struct stat *status, struct hf_adopted_note *out,
                         char why[HF_ADOPTED_WHY_MAX])
{
    char mark[sizeof refusal_mark];
    const off_t at = sizeof mark;
    const ssize_t size = (ssize_t)status->st_size - at;
    char *text = (char *)out;
    if (size <= (ssize_t)sizeof *out || size >= (ssize_t)NOTE_ROOM ||
        pread(descriptor, mark, sizeof mark, 0) != (ssize_t)sizeof mark ||
        memcmp(mark, refusal_mark, sizeof mark) != 0 ||
        pread(descriptor, out, (size_t)size, at) != size)
        return false;
    const size_t most = (size_t)size - sizeof *out, path = strnlen(out->original, most);
    if (path == most || text[size - 1] != '\0' || out->file_size != (uint64_t)status->st_size)
        return false;
    if (why != NULL && path + 1 < most)
        snprintf(why, HF_ADOPTED_WHY_MAX, "%s", out->original + path + 1);
    return true;
}

/* Reads the note of a file in the directory, if the file can be trusted; and the reason, of a
 * refusal. */
static bool read_note(int directory, const char *name, struct hf_adopted_note *note,
                      char why[HF_ADOPTED_WHY_MAX])
{
    struct stat status;
    const size_t length = strlen(name), suffix = strlen(REFUSAL_SUFFIX);
    const bool refusal = length > suffix && strcmp(name + length - suffix, REFUSAL_SUFFIX) == 0;
    const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool whole = is_own(fd, &status) && (refusal ? read_refusal(fd, &status, note, why)
                                                       : read_copy(fd, &status, note, NOTE_ROOM));
    close(fd);
    return whole;
}

bool hf_adopted_place_has(const struct hf_adopted_place *place, const char *original,
                          const uint64_t key[2])
{
    struct hf_adopted_note *note = malloc(NOTE_ROOM);
    const bool has = note != NULL && read_note(place->directory, name_of(place), note, NULL) &&
                     memcmp(note->key, key, sizeof note->key) == 0 &&
                     strcmp(note->original, original) == 0;
    free(note);
    return has;
}

/* ---- writing -------------------------------------------------------------------------------- */

int hf_adopted_place_create(struct hf_adopted_place *place)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        uint32_t number;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            number = (uint32_t)getpid() + attempt;
        if (snprintf(place->unfinished, sizeof place->unfinished, ".%s.%08x", name_of(place),
                     number) >= (int)sizeof place->unfinished)
            return -ENAMETOOLONG;
        const int fd = openat(place->directory, place->unfinished,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

void hf_adopted_place_abandon(const struct hf_adopted_place *place)
{
    if (place->unfinished[0] != '\0')
        (void)unlinkat(place->directory, place->unfinished, 0);
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
    const int copy = openat(place->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
    if (entries == NULL && copy >= 0)
        close(copy);
    const struct dirent *entry;
    while (entries != NULL && own != NULL && note != NULL &&
           read_note(place->directory, name_of(place), own, NULL) &&
           (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (fstatat(place->directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode) || status.st_uid != geteuid())
            continue;
        if (entry->d_name[0] == '.'
                ? time(NULL) - status.st_mtime > UNFINISHED
                : read_note(place->directory, entry->d_name, note, NULL) && is_outdated(note, own))
            (void)unlinkat(place->directory, entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    free(own);
    free(note);
}

int hf_adopted_place_finish(struct hf_adopted_place *place)
{
    if (renameat(place->directory, place->unfinished, place->directory, name_of(place)) != 0)
        return -errno;
    place->unfinished[0] = '\0';
    remove_outdated(place);
    return 0;
}

/* ---- refusals ------------------------------------------------------------------------------- */

/* The same place for a refusal in place of the copy. */
static bool open_refusal(struct hf_adopted_place *place, const char *original,
                         const uint64_t key[2])
{
    static const char suffix[] = REFUSAL_SUFFIX;
    if (hf_adopted_place_open(place, original, key) != 0)
        return false;
    const size_t length = strlen(place->path);
    if (length + sizeof suffix <= sizeof place->path) {
        memcpy(place->path + length, suffix, sizeof suffix);
        return true;
    }
    hf_adopted_place_close(place);
    return false;
}

int hf_adopted_refusal(const char *original, const uint64_t key[2], char why[HF_ADOPTED_WHY_MAX])
{
    struct hf_adopted_place place;
    if (!open_refusal(&place, original, key))
        return 0;
    struct hf_adopted_note *note = malloc(NOTE_ROOM);
    int error = 0;
    if (note != NULL && read_note(place.directory, name_of(&place), note, why) &&
        memcmp(note->key, key, sizeof note->key) == 0 && note->slots > 0 && note->slots < 4096)
        error = -(int)note->slots;
    free(note);
    hf_adopted_place_close(&place);
    return error;
}

void hf_adopted_refuse(const char *original, const uint64_t key[2], int error, const char *why)
{
    struct hf_adopted_place place;
    struct hf_adopted_note note = {.key = {key[0], key[1]}, .slots = (uint64_t)-error};
    const size_t path = strlen(original) + 1, reason = strlen(why) + 1;
    note.file_size = sizeof refusal_mark + sizeof note + path + reason;
    char *text = malloc(note.file_size);
    if (text == NULL || !open_refusal(&place, original, key)) {
        free(text);
        return;
    }
    char *at = text;
    at = mempcpy(at, refusal_mark, sizeof refusal_mark);
    at = mempcpy(at, &note, sizeof note);
    at = mempcpy(at, original, path);
    memcpy(at, why, reason);
    const int file = hf_adopted_place_create(&place);
    bool written = file >= 0 && hf_copy_fits(note.file_size) &&
                   write(file, text, note.file_size) == (ssize_t)note.file_size;
    if (file >= 0)
        written &= close(file) == 0;
    if (!written || hf_adopted_place_finish(&place) != 0)
        hf_adopted_place_abandon(&place);
    hf_adopted_place_close(&place);
    free(text);
}

/* ---- files without an allocator ------------------------------------------------------------- */

/* One word of a key and, in the lowest bit, the verdict. A word is 0 or stays. */
enum { KNOWN = 1024, KEYS_MAX = 1 << 16, TRIES = 8 };
static _Atomic(uint64_t) known[KNOWN];

static uint64_t word_of(const uint64_t key[2])
{
    return ((key[0] ^ key[1] << 1) & ~UINT64_C(1)) | 2;
}

static void remember(const uint64_t key[2], bool has_allocator)
{
    const uint64_t word = word_of(key) | has_allocator;
    for (size_t i = 0; i < TRIES; i++) {
        uint64_t before = 0;
        if (atomic_compare_exchange_strong(&known[(word / 4 + i) % KNOWN], &before, word) ||
            before / 2 == word / 2)
            return;
    }
}

/* The user's list: keys, one after the other. */
static int open_list(int flags, struct stat *status)
{
    char path[PATH_MAX];
    const int directory = open_directory(path, sizeof path);
    const int list = directory >= 0 ? openat(directory, "nothing-inside",
                                             flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)
                                    : -1;
    if (directory >= 0)
        close(directory);
    if (list < 0 || is_own(list, status))
        return list;
    close(list);
    return -1;
}

static bool is_listed(const uint64_t key[2])
{
    uint64_t keys[64][2];
    struct stat status;
    const int list = open_list(O_RDONLY, &status);
    bool found = false;
    ssize_t size;
    off_t at = 0;
    while (list >= 0 && !found && at < (off_t)(KEYS_MAX * sizeof keys[0]) &&
           (size = pread(list, keys, sizeof keys, at)) >= (ssize_t)sizeof keys[0]) {
        for (size_t i = 0; i < (size_t)size / sizeof keys[0]; i++)
            found |= memcmp(keys[i], key, sizeof keys[i]) == 0;
        at += size;
    }
    if (list >= 0)
        close(list);
    return found;
}

int hf_adopted_verdict(const uint64_t key[2])
{
    const uint64_t word = word_of(key);
    for (size_t i = 0; i < TRIES; i++) {
        const uint64_t is = atomic_load(&known[(word / 4 + i) % KNOWN]);
        if (is / 2 == word / 2)
            return (int)(is & 1);
    }
    if (!is_listed(key))
        return -ENOENT;
    remember(key, false);
    return 0;
}

void hf_adopted_keep_verdict(const uint64_t key[2], bool has_allocator)
{
    struct stat status;
    const size_t size = 2 * sizeof *key;
    remember(key, has_allocator);
    const int list = has_allocator ? -1 : open_list(O_WRONLY | O_APPEND | O_CREAT, &status);
    if (list < 0)
        return;
    /* Begun anew when it is full, or when a write was cut short. */
    bool whole = (size_t)status.st_size < KEYS_MAX * size && (size_t)status.st_size % size == 0;
    whole = whole || ftruncate(list, 0) == 0;
    if (whole && hf_copy_fits((uint64_t)status.st_size + size))
        (void)!write(list, key, size);
    close(list);
}
