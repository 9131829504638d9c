/*
 * The extension's part for load() and the import hook: what homefree/_load.py asks before a file's
 * code runs, and the loading, adopting and copying that Python cannot do itself. Owns nothing:
 * handles are never closed once a module was made from them.
 *
 * Errors are OSError with the errno, one line that says why, and the path; _load.py makes
 * ImportErrors of them.
 */
#include "module.h"

#include "elf_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

PyDoc_STRVAR(facts_doc, "file_facts(path, function)\n--\n\n"
                        "What an extension's file says of itself, without running any of it: a "
                        "dict with machine and running (the file's and this process's), shared "
                        "(whether it is a shared object), found (whether it defines that "
                        "function), functions (the first few PyInit_ functions that it defines) "
                        "and homefree (version nodes that it needs of libhomefree).");
PyDoc_STRVAR(open_doc, "open_file(path)\n--\n\nLoads a shared object for itself alone; a handle.");
PyDoc_STRVAR(close_doc, "close_handle(handle)\n--\n\nGives a handle back.");
PyDoc_STRVAR(adopt_doc, "adopt(handle, path)\n--\n\nhf_adopt(): the number of slots changed.");
PyDoc_STRVAR(copy_doc, "private_copy(path)\n--\n\nhf_private_copy(): the copy's path.");
PyDoc_STRVAR(remove_doc, "private_remove(path)\n--\n\nhf_private_remove().");
PyDoc_STRVAR(route_doc, "route()\n--\n\nhf_route(): the number of slots changed, or -errno.");

#if defined(__x86_64__)
#    define RUNNING_MACHINE EM_X86_64
#elif defined(__aarch64__)
#    define RUNNING_MACHINE EM_AARCH64
#endif

static PyObject *fail(int error, const char *why, PyObject *path)
{
    PyObject *arguments = why != NULL ? Py_BuildValue("isO", -error, why, path)
                                      : Py_BuildValue("isO", -error, strerror(-error), path);
    if (arguments != NULL) {
        PyErr_SetObject(PyExc_OSError, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

/* The file system's bytes of a path, and the object that owns them. */
static const char *bytes_of(PyObject *path, PyObject **owner)
{
    if (!PyUnicode_FSConverter(path, owner))
        return NULL;
    return PyBytes_AsString(*owner);
}

static const char *machine_name(int machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    default:
        return "another machine";
    }
}

/* ---- facts ---- */

enum { FUNCTIONS_MAX = 4, VERSIONS_MAX = 8, NAME_MAX_SHOWN = 200 };

struct facts {
    const char *wanted; /* the function */
    bool found;
    char functions[FUNCTIONS_MAX][NAME_MAX_SHOWN];
    size_t functions_count;
    char versions[VERSIONS_MAX][NAME_MAX_SHOWN];
    size_t versions_count;
};

static void keep(char names[][NAME_MAX_SHOWN], size_t *count, size_t room, const char *name)
{
    if (*count < room)
        snprintf(names[(*count)++], NAME_MAX_SHOWN, "%.*s", NAME_MAX_SHOWN - 1, name);
}

static bool look_at_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct facts *facts = context;
    if (!symbol->defined || strncmp(symbol->name, "PyInit", 6) != 0)
        return true;
    if (strcmp(symbol->name, facts->wanted) == 0)
        facts->found = true;
    keep(facts->functions, &facts->functions_count, FUNCTIONS_MAX, symbol->name);
    return true;
}

static bool look_at_version(const char *library, const char *version, bool needed, void *context)
{
    struct facts *facts = context;
    if (needed && strncmp(version, "HOMEFREE_", 9) == 0 && strncmp(library, "libhomefree", 11) == 0)
        keep(facts->versions, &facts->versions_count, VERSIONS_MAX, version);
    return true;
}

static PyObject *list_of(char names[][NAME_MAX_SHOWN], size_t count)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *name = PyUnicode_DecodeUTF8(names[i], (Py_ssize_t)strlen(names[i]), "replace");
        if (name == NULL || PyList_Append(list, name) != 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static int read_facts(const char *file, struct facts *facts, struct hf_elf *elf)
{
    int error = hf_elf_open(elf, file);
    if (error != 0)
        return error;
    if (elf->header.e_type == ET_DYN && elf->header.e_machine == RUNNING_MACHINE) {
        error = hf_elf_dynamic(elf);
        if (error == 0)
            error = hf_elf_symbols(elf, HF_ELF_DYNSYM, look_at_symbol, facts);
        if (error == 0)
            error = hf_elf_versions(elf, look_at_version, facts);
    }
    hf_elf_close(elf);
    return error;
}

static PyObject *file_facts(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *path, *owner;
    struct facts facts = {0};
    struct hf_elf elf;
    int error;
    if (!PyArg_ParseTuple(arguments, "Os:file_facts", &path, &facts.wanted))
        return NULL;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS error = read_facts(file, &facts, &elf);
    Py_END_ALLOW_THREADS Py_DECREF(owner);
    if (error != 0)
        return fail(error, elf.why, path);
    PyObject *functions = list_of(facts.functions, facts.functions_count);
    PyObject *versions = list_of(facts.versions, facts.versions_count);
    PyObject *result = NULL;
    if (functions != NULL && versions != NULL)
        result = Py_BuildValue("{sssssOsOsOsO}", "machine", machine_name(elf.header.e_machine),
                               "running", machine_name(RUNNING_MACHINE), "shared",
                               elf.header.e_type == ET_DYN ? Py_True : Py_False, "found",
                               facts.found ? Py_True : Py_False, "functions", functions, "homefree",
                               versions);
    Py_XDECREF(functions);
    Py_XDECREF(versions);
    return result;
}

/* ---- loading ---- */

static PyObject *open_file(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *owner;
    char why[1024] = "";
    const char *file = bytes_of(path, &owner);
    void *handle;
    if (file == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *message = dlerror();
        snprintf(why, sizeof why, "%s", message != NULL ? message : "the loader does not say why");
    }
    Py_END_ALLOW_THREADS Py_DECREF(owner);
    return handle != NULL ? PyLong_FromVoidPtr(handle) : fail(-ENOEXEC, why, path);
}

static PyObject *close_handle(PyObject *module, PyObject *number)
{
    (void)module;
    void *handle = PyLong_AsVoidPtr(number);
    if (handle == NULL)
        return PyErr_Occurred() ? NULL : fail(-EINVAL, "this is no handle", number);
    dlclose(handle);
    Py_RETURN_NONE;
}

struct refusal {
    const char *file;
    int error;
    char why[512];
};

/* The report's entry for a refused adoption is the one with that error. */
static void find_refusal(const struct hf_route_entry *entry, void *context)
{
    struct refusal *refusal = context;
    if (entry->state != HF_ROUTE_REFUSED || entry->error != refusal->error ||
        strcmp(entry->object, refusal->file) != 0)
        return;
    snprintf(refusal->why, sizeof refusal->why, "%s%s%s",
             entry->function != NULL ? entry->function : "", entry->function != NULL ? ": " : "",
             entry->reason != NULL ? entry->reason : "");
}

static PyObject *adopt(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *number, *path, *owner;
    int result;
    if (!PyArg_ParseTuple(arguments, "OO:adopt", &number, &path))
        return NULL;
    void *handle = PyLong_AsVoidPtr(number);
    if (handle == NULL && PyErr_Occurred())
        return NULL;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    struct refusal refusal = {.file = file};
    Py_BEGIN_ALLOW_THREADS result = hf_adopt(handle);
    if (result == -EPERM)
        strcpy(refusal.why, "routing is off (HOMEFREE_CONF says route:off)");
    refusal.error = result;
    if (result < 0)
        (void)hf_route_report(NULL, find_refusal, &refusal);
    Py_END_ALLOW_THREADS Py_DECREF(owner);
    if (result < 0)
        return fail(result, refusal.why[0] != '\0' ? refusal.why : NULL, path);
    return PyLong_FromLong(result);
}

static PyObject *private_copy(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *owner;
    char copy[PATH_MAX];
    int error;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS error = hf_private_copy(file, copy, sizeof copy);
    Py_END_ALLOW_THREADS Py_DECREF(owner);
    return error == 0 ? PyUnicode_DecodeFSDefault(copy) : fail(error, NULL, path);
}

static PyObject *private_remove(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *owner;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    int error = hf_private_remove(file);
    Py_DECREF(owner);
    if (error != 0)
        return fail(error, NULL, path);
    Py_RETURN_NONE;
}

static PyObject *route(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    int result;
    Py_BEGIN_ALLOW_THREADS result = hf_route();
    Py_END_ALLOW_THREADS return PyLong_FromLong(result);
}

PyMethodDef homefree_load_methods[] = {
    {"file_facts", file_facts, METH_VARARGS, facts_doc},
    {"open_file", open_file, METH_O, open_doc},
    {"close_handle", close_handle, METH_O, close_doc},
    {"adopt", adopt, METH_VARARGS, adopt_doc},
    {"private_copy", private_copy, METH_O, copy_doc},
    {"private_remove", private_remove, METH_O, remove_doc},
    {"route", route, METH_NOARGS, route_doc},
    {NULL, NULL, 0, NULL},
};
