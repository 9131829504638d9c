/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libc's functions that return or grow heap memory, on homefree's heap. Part of libhomefree; the
 * shim forwards libc's names to these (functions.def).
 *
 * Owns nothing; any thread, at any stage. libc does the work wherever it accepts a destination.
 * Where it does not (a line, directory entries), its result is copied into the heap and libc's
 * block freed.
 */
#include "alloc/start/family.h"
#include "alloc/trace/watch.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* realloc, attributed to the caller's object. */
static void *give_or_grow(void *block, size_t size, const void *caller)
{
    return block != NULL ? hf_realloc_for(block, size, caller)
                         : hf_watch_given(hf_malloc(size), size, caller);
}

/* Copies a block that libc allocated into the heap, and frees it in any case. */
static void *adopt(void *block, size_t size)
{
    if (block == NULL)
        return NULL;
    void *copy = hf_malloc(size);
    if (copy != NULL)
        memcpy(copy, block, size);
    int saved_errno = copy != NULL ? errno : ENOMEM;
    free(block);
    errno = saved_errno;
    return copy;
}

static char *adopt_string(char *s)
{
    return s != NULL ? adopt(s, strlen(s) + 1) : NULL;
}

wchar_t *hf_wcsdup(const wchar_t *s)
{
    size_t size = (wcslen(s) + 1) * sizeof *s;
    wchar_t *copy = HF_FOR_CALLER(hf_malloc(size), size);
    return copy != NULL ? memcpy(copy, s, size) : NULL;
}

int hf_vasprintf(char **out, const char *format, va_list args)
{
    char *text = NULL;
    int length = vasprintf(&text, format, args);
    if (length < 0)
        return -1;
    char *copy = adopt(text, (size_t)length + 1);
    if (copy == NULL)
        return -1;
    *out = HF_FOR_CALLER(copy, 0);
    return length;
}

int hf_asprintf(char **out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = hf_vasprintf(out, format, args);
    va_end(args);
    if (length >= 0)
        (void)HF_FOR_CALLER(*out, 0);
    return length;
}

/* libc reads the line into a block of its own, which is copied; the caller's buffer is grown by its
 * owner. Letting libc grow the caller's buffer would require libc's own GOT slots to be routed. */
static ssize_t read_line(char **line, size_t *size, int delimiter, FILE *stream, const void *caller)
{
    if (line == NULL || size == NULL || stream == NULL) {
        errno = EINVAL;
        return -1;
    }
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length = getdelim(&text, &capacity, delimiter, stream);
    if (length >= 0) {
        size_t need = (size_t)length + 1;
        if (*line == NULL || *size < need) {
            /* as glibc: at least 120 bytes, then double */
            size_t grown = *line != NULL && *size <= SIZE_MAX / 2 ? 2 * *size : 120;
            grown = grown < need ? need : grown;
            char *bigger = give_or_grow(*line, grown, caller);
            if (bigger == NULL) {
                free(text);
                errno = ENOMEM;
                return -1;
            }
            *line = bigger;
            *size = grown;
        }
        memcpy(*line, text, need);
    }
    int saved_errno = errno;
    free(text);
    errno = saved_errno;
    return length;
}

ssize_t hf_getdelim(char **line, size_t *size, int delimiter, FILE *stream)
{
    return read_line(line, size, delimiter, stream, __builtin_return_address(0));
}

ssize_t hf_getline(char **line, size_t *size, FILE *stream)
{
    return read_line(line, size, '\n', stream, __builtin_return_address(0));
}

char *hf_realpath(const char *path, char *resolved)
{
    return resolved != NULL ? realpath(path, resolved)
                            : HF_FOR_CALLER(adopt_string(realpath(path, NULL)), 0);
}

char *hf_canonicalize_file_name(const char *path)
{
    return HF_FOR_CALLER(adopt_string(realpath(path, NULL)), 0);
}

/* buffer NULL is glibc's extension: size 0 allocates as much as the path needs. */
char *hf_getcwd(char *buffer, size_t size)
{
    if (buffer != NULL)
        return getcwd(buffer, size);
    char *path = getcwd(NULL, size);
    return HF_FOR_CALLER(size == 0 ? adopt_string(path) : adopt(path, size), 0);
}

char *hf_get_current_dir_name(void)
{
    return HF_FOR_CALLER(adopt_string(get_current_dir_name()), 0);
}

/* One block, laid out as libc does: the pointers, then the strings. */
char **hf_backtrace_symbols(void *const *addresses, int count)
{
    char **names = backtrace_symbols(addresses, count);
    if (names == NULL || count <= 0)
        return adopt(names, 0);
    size_t pointers = (size_t)count * sizeof *names, strings = 0;
    for (int i = 0; i < count; i++)
        strings += strlen(names[i]) + 1;
    char **copy = hf_malloc(pointers + strings);
    char *to = (char *)copy + pointers;
    for (int i = 0; copy != NULL && i < count; i++) {
        copy[i] = to;
        to = stpcpy(to, names[i]) + 1;
    }
    free(names);
    return HF_FOR_CALLER(copy, 0);
}

/* ---- open_memstream ---- */

/*
 * A stream into a growing block of the heap, by fopencookie(). A zero byte always follows the
 * content. *buffer and *size are updated whenever the stream is flushed or closed, and belong to
 * the caller from then on.
 */
struct memory_stream {
    char **buffer;
    size_t *size;
    const void *opener; /* the code that the block is attributed to */
    char *bytes;
    size_t capacity; /* bytes allocated */
    size_t length;   /* bytes of content */
    size_t position; /* where the next byte goes */
};

static bool grow(struct memory_stream *stream, size_t need)
{
    if (need <= stream->capacity)
        return true;
    size_t capacity = stream->capacity * 2 > need ? stream->capacity * 2 : need;
    char *bytes = give_or_grow(stream->bytes, capacity, stream->opener);
    if (bytes == NULL)
        return false;
    memset(bytes + stream->capacity, 0, capacity - stream->capacity);
    stream->bytes = bytes;
    stream->capacity = capacity;
    return true;
}

/* POSIX: *size is the smaller of content length and position. */
static void publish(struct memory_stream *stream)
{
    *stream->buffer = stream->bytes;
    *stream->size = stream->position < stream->length ? stream->position : stream->length;
}

static ssize_t stream_write(void *cookie, const char *bytes, size_t size)
{
    struct memory_stream *stream = cookie;
    if (size > SIZE_MAX / 4 - stream->position || !grow(stream, stream->position + size + 1)) {
        errno = ENOMEM;
        return 0;
    }
    memcpy(stream->bytes + stream->position, bytes, size);
    stream->position += size;
    if (stream->position > stream->length)
        stream->length = stream->position;
    stream->bytes[stream->length] = '\0';
    publish(stream);
    return (ssize_t)size;
}

static int stream_seek(void *cookie, off64_t *offset, int whence)
{
    struct memory_stream *stream = cookie;
    off64_t origin = 0;
    if (whence == SEEK_CUR)
        origin = (off64_t)stream->position;
    else if (whence == SEEK_END)
        origin = (off64_t)stream->length;
    off64_t target;
    if (__builtin_add_overflow(origin, *offset, &target) || target < 0) {
        errno = EINVAL;
        return -1;
    }
    stream->position = (size_t)target;
    *offset = target;
    publish(stream);
    return 0;
}

static int stream_close(void *cookie)
{
    publish(cookie);
    hf_free(cookie);
    return 0;
}

FILE *hf_open_memstream(char **buffer, size_t *size)
{
    if (buffer == NULL || size == NULL) {
        errno = EINVAL;
        return NULL;
    }
    struct memory_stream *stream = hf_calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->buffer = buffer;
    stream->size = size;
    stream->opener = __builtin_return_address(0);
    FILE *file = NULL;
    if (grow(stream, BUFSIZ))
        file = fopencookie(stream, "w",
                           (cookie_io_functions_t){
                               .write = stream_write, .seek = stream_seek, .close = stream_close});
    if (file == NULL) {
        hf_free(stream->bytes);
        hf_free(stream);
        return NULL;
    }
    publish(stream);
    return file;
}

/* ---- scandir ---- */

struct entries {
    struct dirent **names;
    size_t count, capacity;
    const void *caller; /* the code that the blocks are attributed to */
};

static void entries_free(struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        hf_free(entries->names[i]);
    hf_free(entries->names);
}

static bool entries_add(struct entries *entries, const struct dirent *entry)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? 32 : 2 * entries->capacity;
        struct dirent **names =
            give_or_grow(entries->names, capacity * sizeof *names, entries->caller);
        if (names == NULL)
            return false;
        entries->names = names;
        entries->capacity = capacity;
    }
    struct dirent *copy = hf_malloc(entry->d_reclen);
    (void)hf_watch_given(copy, 0, entries->caller);
    if (copy == NULL)
        return false;
    memcpy(copy, entry, entry->d_reclen);
    entries->names[entries->count++] = copy;
    return true;
}

typedef int dirent_compare(const struct dirent **, const struct dirent **);

static int compare_entries(const void *a, const void *b, void *compare)
{
    dirent_compare *function;
    memcpy(&function, compare, sizeof(dirent_compare *));
    return function((const struct dirent **)(uintptr_t)a, (const struct dirent **)(uintptr_t)b);
}

static int scan(DIR *stream, struct dirent ***names, int (*select)(const struct dirent *),
                dirent_compare *compare, const void *caller)
{
    struct entries entries = {.caller = caller};
    const struct dirent *entry;
    int saved_errno = errno;
    while (errno = 0, (entry = readdir(stream)) != NULL) {
        if (select != NULL && select(entry) == 0)
            continue;
        if (!entries_add(&entries, entry)) {
            errno = ENOMEM;
            break;
        }
    }
    if (errno != 0 || entries.count > INT_MAX) {
        int error = errno != 0 ? errno : EOVERFLOW;
        entries_free(&entries);
        closedir(stream);
        errno = error;
        return -1;
    }
    closedir(stream);
    if (compare != NULL && entries.count > 1)
        qsort_r(entries.names, entries.count, sizeof *entries.names, compare_entries,
                (void *)&compare);
    errno = saved_errno;
    *names =
        entries.names != NULL ? entries.names : hf_watch_given(hf_malloc(1), 1, entries.caller);
    return (int)entries.count;
}

static int scan_at(int dirfd, const char *directory, struct dirent ***names,
                   int (*select)(const struct dirent *), dirent_compare *compare,
                   const void *caller)
{
    int fd = openat(dirfd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    DIR *stream = fdopendir(fd);
    if (stream == NULL) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return scan(stream, names, select, compare, caller);
}

int hf_scandirat(int dirfd, const char *directory, struct dirent ***names,
                 int (*select)(const struct dirent *), dirent_compare *compare)
{
    return scan_at(dirfd, directory, names, select, compare, __builtin_return_address(0));
}

int hf_scandir(const char *directory, struct dirent ***names, int (*select)(const struct dirent *),
               dirent_compare *compare)
{
    return scan_at(AT_FDCWD, directory, names, select, compare, __builtin_return_address(0));
}
