/*
 * The C part of homefree.extension: whether a cached module answers a request, which every load()
 * asks first, and the environment. Owns nothing.
 *
 * extension/_index.py writes the index and describes its format. If the file holds anything else,
 * the answer is that nothing is known, and extension/_cache.py reads the files themselves.
 */
#include "loader/python/extension_module.h"

#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An index has a few kB, with thousands of headers some MB. */
#define INDEX_MAX ((off_t)64 << 20)

#define SECOND 1000000000

PyDoc_STRVAR(find_doc,
             "find_warm(root, folder, request, path)\n--\n\n"
             "The path of a module that answers a request, from the index of its folder in the "
             "cache (root), if stat() says of all files behind it what it said then; else None, "
             "and where one of the folders is not this user's alone. path: where commands are "
             "looked for. OSError and ValueError do not come. Any thread.");

PyDoc_STRVAR(environment_doc,
             "environment(names)\n--\n\n"
             "{name: value} of those environment variables that are set; the names are a tuple of "
             "ASCII bytes. os.environ is slow where most are not. Any thread that has the GIL.");

/* ---- identities ---- */

/* Writes a number so that it ends before `end`, with at least that many digits. Result: its first
 * digit. */
static char *put(char *end, uint64_t number, int digits)
{
    for (; number != 0 || digits > 0; number /= 10, digits--)
        *--end = (char)('0' + number % 10);
    return end;
}

/* A time in nanoseconds, any that a file system can have. */
static char *put_time(char *end, const struct timespec *time)
{
    if (time->tv_sec > 0)
        return put(put(end, (uint64_t)time->tv_nsec, 9), (uint64_t)time->tv_sec, 1);
    /* Until 1970. What is thousands of years before has no digits, and equals nothing. */
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

/* Compares with an identity() of extension/_files.py, without creating an object. */
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

static bool is_unchanged(const char *file, const char *identity)
{
    struct stat status;
    return stat(file, &status) == 0 && is_same(&status, identity);
}

/* Nobody else can put files there. */
static bool is_own(const char *folder)
{
    struct stat status;
    return stat(folder, &status) == 0 && status.st_uid == geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Writes folder/name to a buffer of PATH_MAX, which may be the folder's own. False where it has no
 * room, and no system call would take it. */
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

/* Whether a word still runs that file, with that identity. A missing compiler is no change: without
 * one, no other module can be built. which() of extension/_compilers.py finds the same file. */
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
            access(candidate, X_OK) == 0 && stat(candidate, &status) == 0 &&
            !S_ISDIR(status.st_mode))
            return strcmp(candidate, file) == 0 && is_same(&status, identity);
        if (end == NULL)
            return true;
    }
}

/* ---- the index ---- */

/* A file's content. Most have room in the struct: the heap's first block of a size takes longer
 * than reading it. */
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

/* False where there is none, or it cannot be an index. The caller frees what is allocated, then
 * too. */
static bool read_index(const char *file, struct content *content)
{
    struct stat status;
    bool whole = false;
    content->allocated = NULL;
    /* What blocks when it is opened is no index either. */
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

/* What is left of a block: lines, each with its newline, and the last one empty. */
struct lines {
    char *next, *end;
};

/* The next line, which gets a NUL instead of its newline; NULL after the last one. */
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

/* The lines that follow a request's own. Result: false where it has no whole block. */
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
            /* An empty line inside would cut off what else is to be watched; what has a NUL inside
             * would be another path to stat(). */
            return (newline + 1 == end || newline[1] == '\t') &&
                   memchr(lines->next, '\0', (size_t)(line - lines->next)) == NULL;
        }
    }
    return false;
}

/* How many lines of compilers follow; -1 for what is no such number. */
static long read_count(const char *line)
{
    long count = 0;
    int digits = 0;
    for (; *line >= '0' && *line <= '9' && digits < 6; line++, digits++)
        count = count * 10 + (*line - '0');
    return digits == 0 || *line != '\0' || count % 3 != 0 ? -1 : count;
}

/* Writes the path of the block's module, if nothing has changed since. */
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

static bool find(const char *root, const char *folder, const char *request, const char *path,
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
        /* What cannot be bytes of the file system cannot be in a file there. */
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    /* A file server may take its time. */
    Py_BEGIN_ALLOW_THREADS
    found = find(PyBytes_AsString(root), PyBytes_AsString(folder), PyBytes_AsString(request),
                 PyBytes_AsString(path), module);
    Py_END_ALLOW_THREADS
    Py_DECREF(root);
    Py_DECREF(folder);
    Py_DECREF(request);
    Py_DECREF(path);
    if (!found)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(module);
}

/* ---- the environment ---- */

static PyObject *environment(PyObject *self, PyObject *names)
{
    (void)self;
    if (!PyTuple_Check(names))
        return PyErr_Format(PyExc_TypeError, "names are a tuple of bytes");
    Py_ssize_t count = PyTuple_Size(names);
    PyObject *found = PyDict_New();
    for (Py_ssize_t i = 0; found != NULL && i < count; i++) {
        PyObject *item = PyTuple_GetItem(names, i);
        const char *name = item != NULL ? PyBytes_AsString(item) : NULL;
        const char *value = name != NULL ? getenv(name) : NULL;
        if (name != NULL && value == NULL)
            continue;
        PyObject *text = value != NULL ? PyUnicode_DecodeFSDefault(value) : NULL;
        if (text == NULL || PyDict_SetItemString(found, name, text) != 0)
            Py_CLEAR(found);
        Py_XDECREF(text);
    }
    return found;
}

PyMethodDef homefree_warm_methods[] = {
    {"environment", environment, METH_O, environment_doc},
    {"find_warm", find_warm, METH_VARARGS, find_doc},
    {NULL, NULL, 0, NULL},
};
