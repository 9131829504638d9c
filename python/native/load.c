/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for load() and the import hook: the checks that loading/_load.py makes
 * before any code of a file runs, and the loading, adopting and copying that Python code cannot do.
 * Owns nothing: a handle is never closed once a module was created from it. Functions are called
 * with the GIL held and release it while the dynamic linker runs.
 *
 * Errors are OSError with the errno, a reason in one line and the path; _load.py turns them into
 * ImportError.
 */
#include "python/native/module_state.h"

#include "loader/inspect/inspect.h"
#include "loader/inspect/module_functions.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

PyDoc_STRVAR(facts_doc,
             "file_facts(path, rest)\n--\n\n"
             "Facts about an extension's file, read without running any of it: a dict with "
             "errors (rule, message and remedy of each error that inspect finds), allocators "
             "(names of the embedded ones), found (those of _paths.MODULE_FUNCTIONS that it "
             "defines with that rest of the name) and functions (the first few functions of "
             "modules that it defines, as pairs of such a function and the rest).");
PyDoc_STRVAR(open_doc, "open_file(path)\n--\n\nLoads a shared object with RTLD_LOCAL; a handle.");
PyDoc_STRVAR(close_doc, "close_handle(handle)\n--\n\nCloses a handle.");
PyDoc_STRVAR(adopt_doc, "adopt(handle, path)\n--\n\nhf_adopt(): the number of slots changed.");
PyDoc_STRVAR(adopt_file_doc, "adopt_file(path)\n--\n\nhf_adopt_file(): what to load, or None if it "
                             "is loaded and was guarded.");
PyDoc_STRVAR(copy_doc, "private_copy(path)\n--\n\nhf_private_copy(): the copy's path.");
PyDoc_STRVAR(remove_doc, "private_remove(path)\n--\n\nhf_private_remove().");
PyDoc_STRVAR(lend_doc,
             "private_lend(path, handle)\n--\n\n"
             "hf_private_lend() to this interpreter: whether the copy can be used again.");
PyDoc_STRVAR(reuse_doc, "private_reuse(path)\n--\n\n"
                        "hf_private_reuse() by this interpreter: a handle, or None.");
PyDoc_STRVAR(start_doc,
             "start(handle, rest, name, minor)\n--\n\n"
             "Calls a module's PyInit function in this interpreter, without Python's import "
             "system: a module (single-phase initialisation), or a definition for make(). None if "
             "CPython 3.minor calls another function of the module, which shares nothing.");
PyDoc_STRVAR(make_doc, "make(definition, spec)\n--\n\nPyModule_FromDefAndSpec().");
PyDoc_STRVAR(gil_doc,
             "needs_no_gil(made)\n--\n\n"
             "Whether what start() returned is a definition that declares Py_MOD_GIL_NOT_USED.");
PyDoc_STRVAR(interpreter_dict_doc,
             "interpreter_dict()\n--\n\n"
             "The interpreter's dict for extension modules: PyInterpreterState_GetDict().");
PyDoc_STRVAR(route_doc, "route()\n--\n\nhf_route(): the number of slots changed, or -errno.");

/* The file system encoding of a path, and the object that owns the bytes. */
static const char *bytes_of(PyObject *path, PyObject **owner)
{
    if (!PyUnicode_FSConverter(path, owner))
        return NULL;
    return PyBytes_AsString(*owner);
}

/* ---- facts ---- */

/* NAME_LONGEST: more than CPython's own import system allows. */
enum { FUNCTIONS_MAX = 4, NAME_SHOWN = 200, NAME_LONGEST = 512 };

struct facts {
    struct hf_inspection inspection;
    const char *why;    /* after a failure */
    const char *wanted; /* the rest of the name of the functions that are looked for */
    bool found[HF_MODULE_FUNCTION_COUNT];
    struct {
        enum hf_module_function function;
        char rest[NAME_SHOWN];
    } functions[FUNCTIONS_MAX];
    size_t functions_count;
};

static bool look_at_symbol(const struct hf_elf_symbol *symbol, void *context)
{
    struct facts *facts = context;
    const char *rest = "";
    const enum hf_module_function function = hf_module_function_of(symbol->name, &rest);
    if (!symbol->defined || function == HF_MODULE_FUNCTION_NONE)
        return true;
    if (strcmp(rest, facts->wanted) == 0)
        facts->found[function] = true;
    if (facts->functions_count < FUNCTIONS_MAX) {
        const size_t at = facts->functions_count++;
        facts->functions[at].function = function;
        snprintf(facts->functions[at].rest, NAME_SHOWN, "%.*s", NAME_SHOWN - 1, rest);
    }
    return true;
}

static int read_facts(const char *file, struct facts *facts)
{
    int error = hf_inspect(file, &facts->inspection);
    facts->why = facts->inspection.why;
    if (error != 0)
        return error;
    struct hf_elf elf;
    error = hf_elf_open(&elf, file);
    if (error == 0)
        error = hf_elf_symbols(&elf, HF_ELF_DYNSYM, look_at_symbol, facts);
    hf_elf_close(&elf);
    /* If the symbols cannot be read, the findings already contain the reason. */
    if (error == -ENOENT || hf_inspection_severity(&facts->inspection) == HF_SEVERITY_ERROR)
        return 0;
    facts->why = elf.why;
    return error;
}

/* Appends to a list and steals the item's reference. On failure releases the list and returns
 * NULL. */
static PyObject *append(PyObject *list, PyObject *item)
{
    if (homefree_append(list, item) != 0)
        Py_CLEAR(list);
    return list;
}

/* Names in files may be any bytes. */
static PyObject *text_of(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject *facts_dict(const struct facts *facts)
{
    const struct hf_inspection *inspection = &facts->inspection;
    PyObject *errors = PyList_New(0), *allocators = PyList_New(0), *functions = PyList_New(0),
             *found = PyList_New(0);
    for (size_t i = 0; i < inspection->findings_count; i++) {
        const struct hf_rule_text *rule = &hf_rules[inspection->findings[i].rule];
        if (rule->severity == HF_SEVERITY_ERROR)
            errors = append(errors,
                            Py_BuildValue("sNs", rule->name,
                                          text_of(inspection->findings[i].message), rule->remedy));
    }
    for (size_t i = 0; i < inspection->allocators_count; i++)
        allocators =
            append(allocators,
                   PyUnicode_FromString(hf_allocator_name(inspection->allocators[i].allocator)));
    for (size_t i = 0; i < facts->functions_count; i++)
        functions = append(
            functions, Py_BuildValue("sN", hf_module_functions[facts->functions[i].function].name,
                                     text_of(facts->functions[i].rest)));
    for (size_t i = 0; i < HF_MODULE_FUNCTION_COUNT; i++)
        if (facts->found[i])
            found = append(found, PyUnicode_FromString(hf_module_functions[i].name));
    PyObject *result = NULL;
    if (errors != NULL && allocators != NULL && functions != NULL && found != NULL)
        result = Py_BuildValue("{sOsOsOsO}", "errors", errors, "allocators", allocators, "found",
                               found, "functions", functions);
    Py_XDECREF(errors);
    Py_XDECREF(allocators);
    Py_XDECREF(functions);
    Py_XDECREF(found);
    return result;
}

static PyObject *file_facts(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *path, *owner;
    struct facts facts = {0};
    int error;
    if (!PyArg_ParseTuple(arguments, "Os:file_facts", &path, &facts.wanted))
        return NULL;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = read_facts(file, &facts);
    Py_END_ALLOW_THREADS
    Py_DECREF(owner);
    PyObject *result = error == 0 ? facts_dict(&facts) : homefree_os_error(error, facts.why, path);
    hf_inspection_free(&facts.inspection);
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
    Py_BEGIN_ALLOW_THREADS
    handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *message = dlerror();
        snprintf(why, sizeof why, "%s",
                 message != NULL ? message : "the dynamic linker gave no reason");
    }
    Py_END_ALLOW_THREADS
    Py_DECREF(owner);
    return handle != NULL ? PyLong_FromVoidPtr(handle) : homefree_os_error(-ENOEXEC, why, path);
}

static PyObject *private_lend(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *path, *number, *owner;
    if (!PyArg_ParseTuple(arguments, "OO:private_lend", &path, &number))
        return NULL;
    void *handle = PyLong_AsVoidPtr(number);
    const int64_t interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
    const char *file = handle != NULL ? bytes_of(path, &owner) : NULL;
    int result;
    if (file == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = hf_private_lend(file, handle, interpreter);
    Py_END_ALLOW_THREADS
    Py_DECREF(owner);
    return PyBool_FromLong(result == 0);
}

static PyObject *private_reuse(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *owner;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    void *handle = hf_private_reuse(file, PyInterpreterState_GetID(PyInterpreterState_Get()));
    Py_DECREF(owner);
    if (handle == NULL)
        Py_RETURN_NONE;
    return PyLong_FromVoidPtr(handle);
}

static PyObject *close_handle(PyObject *module, PyObject *number)
{
    (void)module;
    void *handle = PyLong_AsVoidPtr(number);
    if (handle == NULL)
        return PyErr_Occurred()
                   ? NULL
                   : homefree_os_error(-EINVAL, "this is not a handle of open_file()", number);
    dlclose(handle);
    Py_RETURN_NONE;
}

struct refusal {
    const char *file;
    int error;
    char why[512];
};

/* The report's entry for a refused adoption has the error that hf_adopt() returned. */
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
    Py_BEGIN_ALLOW_THREADS
    result = hf_adopt(handle);
    if (result == -EPERM)
        snprintf(refusal.why, sizeof refusal.why, "%s", "routing is off (HOMEFREE_CONF=route:off)");
    refusal.error = result;
    if (result < 0)
        (void)hf_route_report(NULL, find_refusal, &refusal);
    Py_END_ALLOW_THREADS
    Py_DECREF(owner);
    if (result < 0)
        return homefree_os_error(result, refusal.why[0] != '\0' ? refusal.why : NULL, path);
    return PyLong_FromLong(result);
}

/* The first function by which CPython 3.minor enters the module with that rest of its functions'
 * names, and its address; or HF_MODULE_FUNCTION_NONE. */
static enum hf_module_function find_function(void *handle, const char *rest, unsigned minor,
                                             void **address)
{
    char symbol[NAME_LONGEST];
    for (int i = 0; i < HF_MODULE_FUNCTION_COUNT; i++) {
        if (hf_module_functions[i].minor > minor)
            continue;
        snprintf(symbol, sizeof symbol, "%s%s", hf_module_functions[i].name, rest);
        *address = dlsym(handle, symbol);
        if (*address != NULL)
            return (enum hf_module_function)i;
    }
    return HF_MODULE_FUNCTION_NONE;
}

/*
 * Python's import system loads a single-phase module into another interpreter by running its PyInit
 * function in the main one and copying the module's dict (3.13), or from its own copy of the dict.
 * Either way, objects of one interpreter reach another. A private copy is a new file, so its PyInit
 * function is called in the interpreter that wants it. Modules that have PyModExport are never of
 * that kind.
 */
static PyObject *start(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *number;
    const char *rest, *name;
    unsigned minor;
    void *address = NULL;
    if (!PyArg_ParseTuple(arguments, "OssI:start", &number, &rest, &name, &minor))
        return NULL;
    void *handle = PyLong_AsVoidPtr(number);
    if (handle == NULL && PyErr_Occurred())
        return NULL;
    const enum hf_module_function function = find_function(handle, rest, minor, &address);
    if (function == HF_MODULE_FUNCTION_NONE) {
        PyErr_Format(PyExc_ImportError, "%s%s is not defined",
                     hf_module_functions[HF_MODULE_FUNCTION_INIT].name, rest);
        return NULL;
    }
    if (function != HF_MODULE_FUNCTION_INIT)
        Py_RETURN_NONE;
    PyObject *(*init)(void) = (PyObject * (*)(void)) address;
    PyObject *made = init();
    if ((made == NULL) != (PyErr_Occurred() != NULL)) {
        /* CPython's own messages. The definition of a multi-phase module is a borrowed
         * reference. */
        PyErr_Clear();
        PyErr_Format(PyExc_SystemError, "initialization of %s %s", name,
                     made == NULL ? "failed without raising an exception"
                                  : "raised an unreported exception");
        return NULL;
    }
    if (made == NULL)
        return NULL;
    if (PyObject_TypeCheck(made, &PyModuleDef_Type)) {
        Py_INCREF(made);
        return made;
    }
    PyModuleDef *definition = PyModule_Check(made) ? PyModule_GetDef(made) : NULL;
    if (definition == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_SystemError, "initialization of %s did not return a module", name);
        Py_DECREF(made);
        return NULL;
    }
    /* Registers the module for PyState_FindModule(). */
    if (PyState_FindModule(definition) != made && PyState_AddModule(made, definition) != 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

/* A module of single-phase initialisation may have declared it by a call, which only CPython's own
 * loader can see. */
static PyObject *needs_no_gil(PyObject *module, PyObject *made)
{
    (void)module;
    return homefree_has_slot(made, HOMEFREE_SLOT_GIL, HOMEFREE_GIL_NOT_USED);
}

static PyObject *interpreter_dict(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (dict == NULL) /* without an exception */
        return PyErr_NoMemory();
    Py_INCREF(dict);
    return dict;
}

static PyObject *make(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *definition, *spec;
    if (!PyArg_ParseTuple(arguments, "O!O:make", &PyModuleDef_Type, &definition, &spec))
        return NULL;
    return PyModule_FromDefAndSpec((PyModuleDef *)definition, spec);
}

/* The path that hf_adopt_file() or hf_private_copy() writes. The former writes the reason of a
 * failure there; None stands for its result 2. */
static PyObject *path_of_copy(PyObject *path, int (*copy)(const char *, char *, size_t))
{
    PyObject *owner;
    char text[PATH_MAX] = "";
    int result;
    const char *file = bytes_of(path, &owner);
    if (file == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = copy(file, text, sizeof text);
    Py_END_ALLOW_THREADS
    Py_DECREF(owner);
    if (result == 2)
        Py_RETURN_NONE;
    return result >= 0 ? PyUnicode_DecodeFSDefault(text)
                       : homefree_os_error(result, text[0] != '\0' ? text : NULL, path);
}

static PyObject *adopt_file(PyObject *module, PyObject *path)
{
    (void)module;
    return path_of_copy(path, hf_adopt_file);
}

static PyObject *private_copy(PyObject *module, PyObject *path)
{
    (void)module;
    return path_of_copy(path, hf_private_copy);
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
        return homefree_os_error(error, NULL, path);
    Py_RETURN_NONE;
}

static PyObject *route(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = hf_route();
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(result);
}

PyMethodDef homefree_load_methods[] = {
    {"file_facts", file_facts, METH_VARARGS, facts_doc},
    {"open_file", open_file, METH_O, open_doc},
    {"close_handle", close_handle, METH_O, close_doc},
    {"adopt", adopt, METH_VARARGS, adopt_doc},
    {"start", start, METH_VARARGS, start_doc},
    {"make", make, METH_VARARGS, make_doc},
    {"needs_no_gil", needs_no_gil, METH_O, gil_doc},
    {"interpreter_dict", interpreter_dict, METH_NOARGS, interpreter_dict_doc},
    {"adopt_file", adopt_file, METH_O, adopt_file_doc},
    {"private_copy", private_copy, METH_O, copy_doc},
    {"private_remove", private_remove, METH_O, remove_doc},
    {"private_lend", private_lend, METH_VARARGS, lend_doc},
    {"private_reuse", private_reuse, METH_O, reuse_doc},
    {"route", route, METH_NOARGS, route_doc},
    {NULL, NULL, 0, NULL},
};
