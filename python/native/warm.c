/*
 * homefree.extension's part of the extension: decides whether a cached module answers a request,
 * which every load() asks first. Owns nothing. Functions that take Python's objects are called with
 * the GIL held.
 *
 * extension/_index.py writes the index and describes its format. If the file holds anything else,
 * the lookup finds nothing, and extension/_cache.py reads the files themselves.
 */
#include "python/native/warm.h"

#include "python/native/module_state.h"

#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An index takes a few kB, or some MB with thousands of headers. */
#define INDEX_MAX ((off_t)64 << 20)

#define SECOND 1000000000

PyDoc_STRVAR(find_doc,
             "find_warm(root, folder, request, path)\n--\n\n"
             "The path of a module that answers a request, from the index of its folder in the "
             "cache (root), if stat() shows that no file behind it has changed; None otherwise, "
             "or if another user can write to one of the folders. path: where commands are "
             "searched for. Never raises OSError or ValueError. Any thread.");

/* ---- identities ---- */

/* Writes a number so that it ends before `end`, with at least `digits` digits. Returns the address
 * of its first digit. */
static char *put(char *end, uint64_t number, int digits)
{
    for (; number != 0 || digits > 0; number /= 10, digits--)
        *--end = (char)('0' + number % 10);
    return end;
}

/* Writes a time in nanoseconds, for any time that a file system can store. */
static char *put_time(char *end, const struct timespec *time)
{
    if (time->tv_sec > 0)
        return put(put(end, (uint64_t)time->tv_nsec, 9), (uint64_t)time->tv_sec, 1);
    /* Before 1970. A time thousands of years earlier is written as nothing, which equals no
     * identity. */
    uint64_t before = -(uint64_t)time->tv_sec;
    if (before > (uint64_t)INT64_MAX / SECOND)
        return end;
    uint64_t nanoseconds = before * SECOND;
    uint64_t part = (uint64_t)time->tv_nsec;
    if (nanoseconds <= part)
        return put(end, part - nanoseconds, 1);
    end = put(end, nanoseconds - part, 1);
    *--end = '-';
    return end;
}

/* Compares a file's status with an identity() of extension/_files.py, without creating an
 * object. */
static bool is_same(const struct stat *status, const char *identity)
{
    char text[128], *end = text + sizeof text - 1, *start = end;
    *end = '\0';
    start = put_time(start, &status->st_ctim);
    *--start = ' ';
    start = put_time(start, &status->st_mtim);
    *--start = ' ';
    start = put(start, (uint64_t)status->st_size, 1);
    *--start = ' ';
    start = put(start, (uint64_t)status->st_ino, 1);
    return strcmp(start, identity) == 0;
}

/* ABSENT of extension/_files.py is the identity of what is not there. */
static bool is_unchanged(const char *file, const char *identity)
{
    struct stat status;
    return stat(file, &status) == 0 ? is_same(&status, identity) : strcmp(identity, "absent") == 0;
}

/* Whether no other user can create files in the folder. */
static bool is_own(const char *folder)
{
    struct stat status;
    return stat(folder, &status) == 0 && status.st_uid == geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Writes folder/name to a buffer of PATH_MAX, which may hold the folder already. Returns false if
 * it does not fit; no system call would accept it then. */
static bool join(char *path, const char *folder, size_t length, const char *name)
{
    size_t more = strlen(name) + 1;
    if (length >= PATH_MAX || more >= PATH_MAX - length)
        return false;
    memmove(path, folder, length);
    path[length] = '/';
    memcpy(path + length + 1, name, more);
    return true;
}

/* ---- compilers ---- */

/* Whether a command word still runs that file, with that identity. A missing compiler is no change,
 * because no other module could be built without it. which() of extension/_compilers.py finds the
 * same file. A file with that identity could be executed when it was noted: what may be executed is
 * a part of its change time. */
static bool is_same_compiler(const char *word, const char *file, const char *identity,
                             const char *path)
{
    struct stat status;
    char candidate[PATH_MAX];
    if (strchr(word, '/') != NULL)
        return access(word, X_OK) != 0 || (strcmp(word, file) == 0 && is_unchanged(word, identity));
    for (const char *folder = path, *end;; folder = end + 1) {
        end = strchr(folder, ':');
        size_t length = end != NULL ? (size_t)(end - folder) : strlen(folder);
        if ((length != 0 ? join(candidate, folder, length, word) : join(candidate, ".", 1, word)) &&
            stat(candidate, &status) == 0 && !S_ISDIR(status.st_mode)) {
            bool is_same_file = strcmp(candidate, file) == 0 && is_same(&status, identity);
            if (is_same_file || access(candidate, X_OK) == 0)
                return is_same_file;
        }
        if (end == NULL)
            return true;
    }
}

/* ---- the index ---- */

/* A file's contents. Most fit into the struct: the heap's first allocation of a size class takes
 * longer than reading the file. */
struct content {
    char *text, *allocated;
    size_t size;
    char room[12 << 10];
};

static bool read_all(int descriptor, struct content *content)
{
    size_t done = 0;
    while (done < content->size) {
        ssize_t got = read(descriptor, content->text + done, content->size - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Returns false if there is no file or it cannot be an index. The caller frees `allocated` in
 * either case. */
static bool read_index(const char *file, struct content *content)
{
    struct stat status;
    bool whole = false;
    content->allocated = NULL;
    /* O_NONBLOCK: a file that would block in open() is not an index. */
    int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
        status.st_size <= INDEX_MAX) {
        content->size = (size_t)status.st_size;
        content->text = content->room;
        if (content->size > sizeof content->room)
            content->text = content->allocated = hf_malloc(content->size);
        whole = content->text != NULL && read_all(descriptor, content);
    }
    close(descriptor);
    return whole;
}

/* The rest of a block: lines, each with its newline, of which the last is empty. */
struct lines {
    char *next, *end;
};

/* Returns the next line with its newline replaced by NUL, or NULL after the last. */
static const char *next_line(struct lines *lines)
{
    char *line = lines->next;
    char *newline = line < lines->end ? memchr(line, '\n', (size_t)(lines->end - line)) : NULL;
    if (newline == NULL)
        return NULL;
    *newline = '\0';
    lines->next = newline + 1;
    return line;
}

/* Finds the lines after the request's own line. Returns false if there is no complete block for the
 * request. */
static bool find_block(const struct content *content, const char *request, struct lines *lines)
{
    size_t length = strlen(request);
    char *end = content->text + content->size, *line = content->text, *newline;
    lines->next = NULL;
    for (; (newline = memchr(line, '\n', (size_t)(end - line))) != NULL; line = newline + 1) {
        if (lines->next == NULL) {
            if (*line == '\t' && (size_t)(newline - line) == length + 1 &&
                memcmp(line + 1, request, length) == 0)
                lines->next = newline + 1;
        } else if (newline == line) {
            lines->end = line;
            /* An empty line inside would hide the remaining files to check, and a NUL inside would
             * make stat() check a different path. */
            return (newline + 1 == end || newline[1] == '\t') &&
                   memchr(lines->next, '\0', (size_t)(line - lines->next)) == NULL;
        }
    }
    return false;
}

/* Parses the number of compiler lines that follow; -1 if it is not valid. */
static long read_count(const char *line)
{
    long count = 0;
    int digits = 0;
    for (; *line >= '0' && *line <= '9' && digits < 6; line++, digits++)
        count = count * 10 + (*line - '0');
    return digits == 0 || *line != '\0' || count % 3 != 0 ? -1 : count;
}

/* Writes the path of the block's module. Returns whether nothing has changed since it was built. */
static bool is_fresh(struct lines *lines, const char *folder, const char *path, char *module)
{
    const char *entry = next_line(lines), *file = next_line(lines), *was = next_line(lines);
    const char *number = next_line(lines), *line;
    if (number == NULL || strchr(entry, '/') != NULL || strchr(file, '/') != NULL)
        return false;
    if (!join(module, folder, strlen(folder), entry) ||
        !join(module, module, strlen(module), file) || !is_unchanged(module, was))
        return false;
    long count = read_count(number);
    if (count < 0)
        return false;
    for (; count > 0; count -= 3) {
        const char *word = next_line(lines), *compiler = next_line(lines);
        was = next_line(lines);
        if (was == NULL || !is_same_compiler(word, compiler, was, path))
            return false;
    }
    while ((line = next_line(lines)) != NULL) {
        was = next_line(lines);
        if (was == NULL || !is_unchanged(line, was))
            return false;
    }
    return true;
}

bool homefree_find_warm(const char *root, const char *folder, const char *request, const char *path,
                        char *module)
{
    struct content content;
    struct lines lines;
    if (!is_own(root) || !is_own(folder) || !join(module, folder, strlen(folder), "index"))
        return false;
    bool found = read_index(module, &content) && find_block(&content, request, &lines) &&
                 is_fresh(&lines, folder, path, module);
    if (content.allocated != NULL)
        hf_free(content.allocated);
    return found;
}

static PyObject *find_warm(PyObject *self, PyObject *arguments)
{
    PyObject *root, *folder, *request, *path;
    char module[PATH_MAX];
    bool found;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O&O&O&O&:find_warm", PyUnicode_FSConverter, &root,
                          PyUnicode_FSConverter, &folder, PyUnicode_FSConverter, &request,
                          PyUnicode_FSConverter, &path)) {
        /* A path that has no file system encoding cannot be in an index. */
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    /* The files may be on a slow file server. */
    Py_BEGIN_ALLOW_THREADS
    found = homefree_find_warm(PyBytes_AsString(root), PyBytes_AsString(folder),
                               PyBytes_AsString(request), PyBytes_AsString(path), module);
    Py_END_ALLOW_THREADS
    Py_DECREF(root);
    Py_DECREF(folder);
    Py_DECREF(request);
    Py_DECREF(path);
    if (!found)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(module);
}

PyMethodDef homefree_warm_methods[] = {
    {"find_warm", find_warm, METH_VARARGS, find_doc},
    {NULL, NULL, 0, NULL},
};
