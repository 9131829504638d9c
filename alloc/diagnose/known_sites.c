/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the set of known sites, as hashes: a place that is taken for known by chance costs a stack.
 * See known_sites.h.
 *
 * Constraint: the files are hostile. Each is copied into memory of its own (a mapped one could be
 * cut short meanwhile), and every number and position in it is checked. A directory is read up to
 * limits.
 */
#include "alloc/diagnose/known_sites.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    KNOWN_ROOM = 8192,
    KNOWN_MAX = KNOWN_ROOM / 2,
    FILES_MAX = 256,
    FILE_MAX = HF_REPORT_CHUNKS_MAX * HF_REPORT_CHUNK,
    BYTES_MAX = 2 * FILE_MAX, /* of all files */
    BODY = HF_REPORT_CHUNK - sizeof(struct hf_report_chunk)
};

static uint64_t known[KNOWN_ROOM]; /* 0: free */
static bool accessed[KNOWN_ROOM];
static size_t known_count;

/* ---- the set ---- */

static uint64_t add_hash(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return hash;
}

static uint64_t hash_of(const char *path, uint64_t offset, const struct hf_report_object *object)
{
    uint64_t hash = add_hash(0xcbf29ce484222325, path, strlen(path) + 1);
    hash = add_hash(hash, &offset, sizeof offset);
    if (object->build_size <= sizeof object->build)
        hash = add_hash(hash, object->build, object->build_size);
    return hash != 0 ? hash : 1;
}

/* Where a hash is, or belongs. The set is never full. */
static uint64_t *find_place(uint64_t hash)
{
    size_t at = hash >> 51; /* 13 bits */
    while (known[at] != 0 && known[at] != hash)
        at = (at + 1) % KNOWN_ROOM;
    return &known[at];
}

enum hf_known hf_known_site(const char *path, uint64_t offset,
                            const struct hf_report_object *object)
{
    if (known_count == 0)
        return HF_UNKNOWN;
    const uint64_t hash = hash_of(path, offset, object);
    const uint64_t *place = find_place(hash);
    if (*place != hash)
        return HF_UNKNOWN;
    return accessed[place - known] ? HF_KNOWN_ACCESSED : HF_KNOWN;
}

static void add(const char *path, uint64_t offset, const struct hf_report_object *object,
                bool is_accessed)
{
    const uint64_t hash = hash_of(path, offset, object);
    uint64_t *place = find_place(hash);
    if (*place != hash && known_count == KNOWN_MAX)
        return;
    known_count += *place != hash;
    *place = hash;
    accessed[place - known] |= is_accessed;
}

/* ---- one file ---- */

/* A file in memory, and the numbers of its chunks by type, each in the order of the file. */
struct recorded {
    const char *bytes;
    uint16_t *chunks[HF_REPORT_TYPES];
    uint16_t counts[HF_REPORT_TYPES];
};
_Static_assert(HF_REPORT_CHUNKS_MAX <= UINT16_MAX, "a chunk's number has 16 bits");

static const struct hf_report_chunk *chunk_at(const struct recorded *file, enum hf_report_type type,
                                              size_t index)
{
    return (const struct hf_report_chunk *)(file->bytes +
                                            (size_t)file->chunks[type][index] * HF_REPORT_CHUNK);
}

/* numbers: room for one of each chunk. */
static void find_chunks(struct recorded *file, size_t size, uint16_t *numbers)
{
    for (size_t type = 0; type < HF_REPORT_TYPES; type++) {
        file->chunks[type] = numbers;
        for (size_t i = 1; i < size / HF_REPORT_CHUNK; i++) {
            const struct hf_report_chunk *chunk = (const void *)(file->bytes + i * HF_REPORT_CHUNK);
            if (chunk->type == type && chunk->used <= BODY)
                *numbers++ = (uint16_t)i;
        }
        file->counts[type] = (uint16_t)(numbers - file->chunks[type]);
    }
}

/* A record by its number, or NULL. Every chunk but a type's last is full. */
static const void *get(const struct recorded *file, enum hf_report_type type, size_t size,
                       uint32_t number)
{
    const size_t capacity = BODY / size, index = number / capacity,
                 offset = number % capacity * size;
    if (index >= file->counts[type])
        return NULL;
    const struct hf_report_chunk *chunk = chunk_at(file, type, index);
    return offset + size <= chunk->used ? (const char *)(chunk + 1) + offset : NULL;
}

static const char *get_string(const struct recorded *file, uint32_t string)
{
    for (size_t i = 0; string != 0 && i < file->counts[HF_REPORT_STRINGS]; i++) {
        const struct hf_report_chunk *chunk = chunk_at(file, HF_REPORT_STRINGS, i);
        const uint32_t offset = string - 1 - chunk->first;
        if (string - 1 >= chunk->first && offset < chunk->used) {
            const char *text = (const char *)(chunk + 1) + offset;
            return memchr(text, '\0', chunk->used - offset) != NULL ? text : NULL;
        }
    }
    return NULL;
}

static void take_finding(const struct recorded *file, const struct hf_report_finding *finding)
{
    const struct hf_report_site *site =
        finding->allocated_site != 0
            ? get(file, HF_REPORT_SITES, sizeof *site, finding->allocated_site)
            : NULL;
    const struct hf_report_object *object =
        site != NULL && site->object != 0
            ? get(file, HF_REPORT_OBJECTS, sizeof *object, site->object)
            : NULL;
    const char *path = object != NULL ? get_string(file, object->path) : NULL;
    if (path != NULL)
        add(path, site->address - object->base, object,
            finding->rule == HF_FAULT_USE_AFTER_FREE || finding->rule == HF_FAULT_OVERRUN);
}

static int take_contents(const char *bytes, size_t size, uint16_t *numbers)
{
    struct recorded file = {.bytes = bytes};
    const struct hf_report_header *header = (const void *)bytes;
    if (size < HF_REPORT_CHUNK ||
        memcmp(header->magic, HF_REPORT_MAGIC, sizeof header->magic) != 0 ||
        header->version != HF_REPORT_VERSION)
        return -ENOEXEC;
    find_chunks(&file, size, numbers);
    for (size_t i = 0; i < file.counts[HF_REPORT_FINDINGS]; i++) {
        const struct hf_report_chunk *chunk = chunk_at(&file, HF_REPORT_FINDINGS, i);
        const struct hf_report_finding *findings = (const void *)(chunk + 1);
        for (size_t k = 0; k < chunk->used / sizeof *findings; k++)
            take_finding(&file, &findings[k]);
    }
    return 0;
}

static int take_open_file(int file, const struct stat *status, size_t *left)
{
    if (status->st_size > FILE_MAX || (size_t)status->st_size > *left)
        return -EFBIG;
    const size_t size = (size_t)status->st_size;
    const size_t numbers = (size + 1) / 2 * 2; /* lie behind the contents */
    const size_t capacity = numbers + size / HF_REPORT_CHUNK * sizeof(uint16_t);
    size_t done = 0;
    if (size == 0)
        return -ENOEXEC;
    *left -= size;
    char *bytes = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    for (ssize_t got = 1; got > 0 && done<size; done += got> 0 ? (size_t)got : 0)
        got = read(file, bytes + done, size - done);
    const int error = take_contents(bytes, done, (uint16_t *)(void *)(bytes + numbers));
    (void)munmap(bytes, capacity);
    return error;
}

/* ---- files and directories ---- */

static bool is_report(const char *name)
{
    const size_t length = strlen(name), suffix = strlen(HF_REPORT_SUFFIX);
    return length > suffix && strcmp(name + length - suffix, HF_REPORT_SUFFIX) == 0;
}

static int take(int directory, const char *name, size_t *left, struct stat *status, int *opened)
{
    const int file = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *opened = -1;
    if (file < 0)
        return -errno;
    int error = fstat(file, status) == 0 ? 0 : -errno;
    if (error == 0 && S_ISDIR(status->st_mode)) {
        *opened = file;
        return -EISDIR;
    }
    if (error == 0)
        error = S_ISREG(status->st_mode) ? take_open_file(file, status, left) : -ENOEXEC;
    (void)close(file);
    return error;
}

/* Returns 0 if one of the files is a report. */
static int take_directory(int directory, size_t *left)
{
    _Alignas(struct dirent64) char entries[4096];
    struct stat status;
    int inner, result = -ENOEXEC, files = 0;
    long got;
    /* readdir(3) would allocate. */
    while ((got = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
        for (long at = 0; at < got && files < FILES_MAX;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (!is_report(entry->d_name))
                continue;
            files++;
            const int error = take(directory, entry->d_name, left, &status, &inner);
            if (inner >= 0)
                (void)close(inner);
            if (error == 0)
                result = 0;
        }
    return got < 0 ? -errno : result;
}

int hf_known_sites_read(const char *path)
{
    size_t left = BYTES_MAX;
    struct stat status;
    int directory;
    const int saved_errno = errno;
    int error = take(AT_FDCWD, path, &left, &status, &directory);
    if (error == -EISDIR) {
        error = take_directory(directory, &left);
        (void)close(directory);
    }
    errno = saved_errno;
    return error;
}
