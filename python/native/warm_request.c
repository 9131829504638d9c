/*
 * homefree.extension's part of the extension: the request that an ordinary call of load() makes,
 * without executing Python code. Owns nothing.
 * Functions are called with the GIL held, without which another thread may change the environment
 * while they read it.
 *
 * extension/_request.py reads every call, and writes the text that the index of the cache has. What
 * is unusual is left to it. A text that differs from its text finds nothing, which costs time but
 * does no harm.
 */
#include "python/native/module_state.h"
#include "python/native/warm.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A longer name is left to Python. */
#define LONGEST_NAME 200
/* The same, for the path of the cache folder, with its NUL. */
#define LONGEST_FOLDER 1024

PyDoc_STRVAR(find_doc,
             "find_plain(name, sources, lists, python)\n--\n\n"
             "The path of a module in the cache that answers load(name, sources) with these lists "
             "of options, and whose files stat() reports unchanged, or None: then Request decides. "
             "python: what the module must be made for. Not for a Python without a GIL, where "
             "another thread may assign to os.environ meanwhile. Any thread.");

PyDoc_STRVAR(variables_doc, "compiler_variables()\n--\n\n"
                            "The names of the environment variables that compilers and linkers "
                            "read, as a tuple. Any thread.");

/* ---- the environment ---- */

/* Variables that compilers and linkers read. */
static const char *const read_by_compilers[] = {
    "CPPFLAGS",
    "CFLAGS",
    "CXXFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "SOURCE_DATE_EPOCH",
    "NVCC_PREPENDFLAGS",
    "NVCC_APPENDFLAGS",
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static PyObject *compiler_variables(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *found = PyTuple_New((Py_ssize_t)COUNT(read_by_compilers));
    for (size_t i = 0; found != NULL && i < COUNT(read_by_compilers); i++) {
        PyObject *name = PyUnicode_FromString(read_by_compilers[i]);
        if (name == NULL || PyTuple_SetItem(found, (Py_ssize_t)i, name) != 0)
            Py_CLEAR(found);
    }
    return found;
}

/* Whether os.path.abspath() would leave a path as it is. strcspn() and its like are not used here:
 * nothing else of a starting Python needs them, so their pages would have to be mapped first. */
static bool is_absolute(const char *path)
{
    if (*path != '/')
        return false;
    do {
        const char *part = ++path;
        while (*path != '/' && *path != '\0')
            path++;
        bool has_dots = *part == '.' && (path - part == 1 || (path - part == 2 && part[1] == '.'));
        if (path == part || has_dots)
            return false;
    } while (*path != '\0');
    return true;
}

/* Appends to the string in a buffer. Returns false if it does not fit. */
static bool append(char *path, size_t room, const char *more)
{
    size_t length = strlen(path), added = strlen(more);
    if (added >= room - length)
        return false;
    memcpy(path + length, more, added);
    path[length + added] = '\0';
    return true;
}

/* Writes the path of a cache folder to a buffer of LONGEST_FOLDER bytes. Returns false if Python
 * must do it. */
static bool put_folder(char *path, const char *folder, const char *more)
{
    path[0] = '\0';
    return is_absolute(folder) && append(path, LONGEST_FOLDER, folder) &&
           append(path, LONGEST_FOLDER, more);
}

/* Returns a variable's value, or NULL if it is empty or not set. */
static const char *value_of(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* Writes the cache folder for a module to a buffer of LONGEST_FOLDER bytes, as cache_root() of
 * extension/_request.py finds it. Returns false if that one must. */
static bool find_root(char *root, const char *name)
{
    char own[LONGEST_NAME + 32] = "HOMEFREE_BUILD_DIR_", *end = own + strlen(own);
    for (; *name != '\0'; name++)
        *end++ = (char)(*name == '.' ? '_' : *name);
    *end = '\0';
    const char *folder = value_of(own);
    if (folder == NULL)
        folder = value_of("HOMEFREE_BUILD_DIR");
    if (folder != NULL)
        return put_folder(root, folder, "");
    folder = getenv("XDG_CACHE_HOME");
    if (folder != NULL && *folder == '/')
        return put_folder(root, folder, "/homefree");
    folder = getenv("HOME");
    return folder != NULL && put_folder(root, folder, "/.cache/homefree");
}

/* ---- the request ---- */

/* The text of a request as far as it is written: fields, each with a tab after it. */
struct text {
    size_t length;
    bool fits; /* else Python must write it */
    char bytes[4096];
};

/* Adds two strings as they are. */
static void add(struct text *text, const char *start, const char *rest)
{
    size_t first = strlen(start), second = strlen(rest);
    text->fits = text->fits && first < sizeof text->bytes - text->length &&
                 second < sizeof text->bytes - text->length - first;
    if (!text->fits)
        return;
    memcpy(text->bytes + text->length, start, first);
    memcpy(text->bytes + text->length + first, rest, second + 1);
    text->length += first + second;
}

/* Ends a field that begins at `start`. One with a character that _escaped() of
 * extension/_request.py replaces is left to Python. */
static void end_field(struct text *text, size_t start)
{
    for (; text->fits && start < text->length; start++) {
        char byte = text->bytes[start];
        text->fits = byte != '\\' && byte != '\t' && byte != '\n';
    }
    add(text, "\t", "");
}

static void add_field(struct text *text, const char *start, const char *rest)
{
    size_t at = text->length;
    add(text, start, rest);
    end_field(text, at);
}

/* Adds a source's absolute path as a field. */
static void add_source(struct text *text, const char *source)
{
    char folder[LONGEST_FOLDER];
    size_t start = text->length;
    bool is_relative = *source != '/';
    if (is_relative && getcwd(folder, sizeof folder) == NULL)
        text->fits = false;
    if (is_relative && text->fits)
        add(text, folder, "/");
    add(text, source, "");
    text->fits = text->fits && is_absolute(text->bytes + start);
    end_field(text, start);
}

static void add_count(struct text *text, Py_ssize_t count)
{
    char digits[4] = "", *digit = digits;
    if (count > 99)
        text->fits = false;
    if (count > 9)
        *digit++ = (char)('0' + count / 10 % 10);
    *digit = (char)('0' + count % 10);
    add_field(text, digits, "");
}

enum language { LANGUAGE_C = 1, LANGUAGE_CXX = 2, LANGUAGE_OTHER = 4 };

static enum language language_of(const char *source)
{
    static const char *const cxx[] = {".cc", ".cpp", ".cxx", ".c++", ".C"};
    const char *suffix = strrchr(source, '.');
    if (suffix == NULL)
        return LANGUAGE_OTHER;
    if (strcmp(suffix, ".c") == 0)
        return LANGUAGE_C;
    for (size_t i = 0; i < COUNT(cxx); i++)
        if (strcmp(suffix, cxx[i]) == 0)
            return LANGUAGE_CXX;
    return LANGUAGE_OTHER;
}

/* Returns the bytes of a str in the file system's encoding, which live as long as `*encoded`; NULL,
 * with an exception set, if it has none, or a NUL in it. The caller drops `*encoded` in either
 * case. */
static const char *encode(PyObject *string, PyObject **encoded)
{
    char *bytes = NULL;
    *encoded = PyUnicode_EncodeFSDefault(string);
    if (*encoded == NULL || PyBytes_AsStringAndSize(*encoded, &bytes, NULL) != 0)
        return NULL;
    return bytes;
}

/* Adds a str or a path as a field. languages: where a source's language is noted, or NULL for
 * another argument. */
static void add_string(struct text *text, PyObject *given, unsigned *languages)
{
    PyObject *path = PyOS_FSPath(given), *encoded = NULL;
    bool is_str = path != NULL && PyUnicode_CheckExact(path);
    const char *bytes = is_str ? encode(path, &encoded) : NULL;
    if (bytes == NULL) {
        text->fits = false;
    } else if (languages != NULL) {
        *languages |= language_of(bytes);
        add_source(text, bytes);
    } else {
        add_field(text, "", bytes);
    }
    Py_XDECREF(encoded);
    Py_XDECREF(path);
}

/* Adds a list or a tuple, or None, which is empty: its length, and each of its strings. A list may
 * change while an element's __fspath__() is called. */
static void add_strings(struct text *text, PyObject *given, unsigned *languages)
{
    bool is_list = PyList_CheckExact(given);
    Py_ssize_t count = is_list ? PyList_Size(given) : 0;
    if (PyTuple_CheckExact(given))
        count = PyTuple_Size(given);
    else if (!is_list && given != Py_None)
        text->fits = false;
    add_count(text, count);
    for (Py_ssize_t i = 0; text->fits && i < count; i++) {
        PyObject *item = is_list ? PyList_GetItem(given, i) : PyTuple_GetItem(given, i);
        Py_XINCREF(item);
        if (item != NULL)
            add_string(text, item, languages);
        Py_XDECREF(item);
        text->fits = text->fits && (!is_list || PyList_Size(given) == count);
    }
}

/* Adds the command of a compiler, as _compilers() of extension/_request.py finds it. */
static void add_compiler(struct text *text, const char *variable, const char *usual)
{
    const char *value = value_of(variable);
    add(text, variable, "=");
    add_field(text, "", value != NULL ? value : usual);
}

/* Adds what the environment says to the compilers of these languages. */
static void add_environment(struct text *text, unsigned languages)
{
    if (languages & LANGUAGE_C)
        add_compiler(text, "CC", "cc");
    if (languages & LANGUAGE_CXX)
        add_compiler(text, "CXX", "c++");
    add_field(text, "", "");
    for (size_t i = 0; i < COUNT(read_by_compilers); i++) {
        const char *value = getenv(read_by_compilers[i]);
        if (value != NULL) {
            add(text, read_by_compilers[i], "=");
            add_field(text, "", value);
        }
    }
    add_field(text, "", "");
}

/* Writes the text of a request as _text() of extension/_request.py does. Returns false, perhaps
 * with an exception set, if Python must write it. */
static bool write_text(struct text *text, const char *name, PyObject *sources, PyObject *lists,
                       PyObject *python)
{
    unsigned languages = 0;
    text->length = 0;
    text->fits = PyTuple_CheckExact(lists) && PyUnicode_CheckExact(python);
    if (!text->fits)
        return false;
    add_field(text, "", name);
    add_strings(text, sources, &languages);
    for (Py_ssize_t i = 0; text->fits && i < PyTuple_Size(lists); i++)
        add_strings(text, PyTuple_GetItem(lists, i), NULL);
    if (languages == 0 || (languages & LANGUAGE_OTHER) || !text->fits)
        return false;
    add(text, "0\t\t1\t", ""); /* no CUDA, no torch, but homefree's folder in the RUNPATH */
    add_environment(text, languages);
    add_field(text, "", ""); /* no -march=native, for which the processor's features stand here */
    PyObject *encoded;
    const char *bytes = encode(python, &encoded);
    text->fits = text->fits && bytes != NULL;
    if (bytes != NULL)
        add(text, bytes, "");
    Py_XDECREF(encoded);
    return text->fits;
}

/* Writes a module's name to a buffer. Returns false, perhaps with an exception set, if it is none,
 * or an unusual one. */
static bool copy_name(char *copy, PyObject *name)
{
    PyObject *encoded = NULL;
    const char *bytes = PyUnicode_CheckExact(name) ? encode(name, &encoded) : NULL;
    if (bytes == NULL)
        bytes = "";
    size_t length = strlen(bytes);
    bool is_usual = length > 0 && length <= LONGEST_NAME && *bytes != '.';
    for (size_t i = 0; is_usual && i < length; i++)
        is_usual = isalnum((unsigned char)bytes[i]) || bytes[i] == '_' || bytes[i] == '.';
    if (is_usual)
        memcpy(copy, bytes, length + 1);
    Py_XDECREF(encoded);
    return is_usual;
}

/* Finds a text in the cache. Returns whether the path of a module was written. */
static bool find_text(const struct text *text, const char *name, char *module)
{
    char root[LONGEST_FOLDER], folder[LONGEST_FOLDER];
    bool found = false;
    folder[0] = '\0'; /* not all of it: it has pages that nothing else touches */
    /* A copy, because another thread may change the environment meanwhile. */
    const char *variable = getenv("PATH");
    PyObject *path = variable != NULL ? PyBytes_FromString(variable) : NULL;
    if (path != NULL && find_root(root, name) && append(folder, sizeof folder, root) &&
        append(folder, sizeof folder, "/") && append(folder, sizeof folder, name)) {
        const char *folders = PyBytes_AsString(path);
        /* The files may be on a slow file server. */
        Py_BEGIN_ALLOW_THREADS
        found = homefree_find_warm(root, folder, text->bytes, folders, module);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(path);
    return found;
}

static PyObject *find_plain(PyObject *self, PyObject *arguments)
{
    PyObject *name, *sources, *lists, *python;
    char copy[LONGEST_NAME + 1], module[PATH_MAX];
    struct text text;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OOOO:find_plain", &name, &sources, &lists, &python))
        return NULL;
    if (copy_name(copy, name) && write_text(&text, copy, sources, lists, python) &&
        find_text(&text, copy, module))
        return PyUnicode_DecodeFSDefault(module);
    /* What is not what it should be is for Request to say. */
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError) &&
        !PyErr_ExceptionMatches(PyExc_ValueError))
        return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyMethodDef homefree_request_methods[] = {
    {"compiler_variables", compiler_variables, METH_NOARGS, variables_doc},
    {"find_plain", find_plain, METH_VARARGS, find_doc},
    {NULL, NULL, 0, NULL},
};
