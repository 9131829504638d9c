/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for modules in an interpreter with a GIL of its own (loading/
 * _interpreter_modules.py): what a file says about its initialisation, which libraries it shares
 * Python objects with, and the names under which copies of such libraries are found.
 *
 * Owns nothing. Reads files with loader/elf, and changes only private copies that are not loaded
 * yet. Threads: any that is attached; no lock but the dynamic linker's.
 */
#include "python/native/module_state.h"

#include "loader/elf/elf_file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

PyDoc_STRVAR(initialisation_doc,
             "initialisation(path)\n--\n\n"
             "How a file creates its module, by the functions of CPython that it imports: 'multi', "
             "'single', or 'unknown' if it imports those of both ways, or neither; 'borrowing' for "
             "a multi-phase module that takes tables of functions from other modules' capsules.");
PyDoc_STRVAR(own_gil_doc,
             "supports_own_gil(made)\n--\n\n"
             "Whether what start() returned is a definition that declares support for interpreters "
             "with a GIL of their own.");
PyDoc_STRVAR(libraries_doc,
             "python_libraries(path)\n--\n\n"
             "The loaded libraries that a file needs and that call CPython: a list of the names by "
             "which it needs them, and their paths.");
PyDoc_STRVAR(soname_doc,
             "give_soname(original, copy, name)\n--\n\n"
             "Makes a private copy of a library answer to a name, which must be as long as the "
             "original's DT_SONAME.");
PyDoc_STRVAR(loaded_doc, "loaded_soname(handle)\n--\n\nThe name that a loaded copy answers to.");
PyDoc_STRVAR(needed_doc,
             "rename_needed(copy, old, new)\n--\n\n"
             "Makes a private copy need another library; the names are of the same length.");

/* ---- what symbols tell ---- */

struct imports {
    bool multi, single, borrowing, python, provides;
};

static bool look_at_import(const struct hf_elf_symbol *symbol, void *context)
{
    struct imports *imports = context;
    if (symbol->defined) {
        imports->provides |= strcmp(symbol->name, "Py_GetVersion") == 0;
        return true;
    }
    imports->multi |= strcmp(symbol->name, "PyModuleDef_Init") == 0;
    imports->single |= strncmp(symbol->name, "PyModule_Create2", 16) == 0;
    imports->borrowing |= strcmp(symbol->name, "PyCapsule_Import") == 0 ||
                          strcmp(symbol->name, "PyCapsule_GetPointer") == 0;
    imports->python |= strncmp(symbol->name, "Py", 2) == 0 || strncmp(symbol->name, "_Py", 3) == 0;
    return true;
}

static int read_imports(const char *file, struct imports *imports, const char **why)
{
    struct hf_elf elf;
    *imports = (struct imports){0};
    int error = hf_elf_open(&elf, file);
    if (error == 0)
        error = hf_elf_symbols(&elf, HF_ELF_DYNSYM, look_at_import, imports);
    *why = elf.why;
    hf_elf_close(&elf);
    return error;
}

static PyObject *initialisation(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *owner;
    struct imports imports;
    const char *why;
    int error;
    if (!PyUnicode_FSConverter(path, &owner))
        return NULL;
    const char *file = PyBytes_AsString(owner);
    Py_BEGIN_ALLOW_THREADS
    error = read_imports(file, &imports, &why);
    Py_END_ALLOW_THREADS
    Py_DECREF(owner);
    if (error != 0)
        return homefree_os_error(error, why, path);
    return PyUnicode_FromString(imports.multi == imports.single ? "unknown"
                                : imports.single                ? "single"
                                : imports.borrowing             ? "borrowing"
                                                                : "multi");
}

static PyObject *supports_own_gil(PyObject *module, PyObject *made)
{
    (void)module;
    return homefree_has_slot(made, HOMEFREE_SLOT_INTERPRETERS, HOMEFREE_PER_INTERPRETER_GIL);
}

/* ---- libraries ---- */

/* Appends (name, path) if the library is loaded and calls CPython without being CPython. */
static int add_library(PyObject *list, const char *name)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    struct link_map *map;
    struct imports imports = {0};
    const char *why;
    int result = 0;
    if (handle == NULL)
        return 0;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] == '/' &&
        read_imports(map->l_name, &imports, &why) == 0 && imports.python && !imports.provides) {
        PyObject *path = PyUnicode_DecodeFSDefault(map->l_name);
        result = homefree_append(list, path != NULL ? Py_BuildValue("(sN)", name, path) : NULL);
    }
    dlclose(handle);
    return result;
}

static PyObject *python_libraries(PyObject *module, PyObject *path)
{
    (void)module;
    PyObject *owner;
    struct hf_elf elf;
    size_t cursor = 0;
    const char *name;
    if (!PyUnicode_FSConverter(path, &owner))
        return NULL;
    int error = hf_elf_open(&elf, PyBytes_AsString(owner));
    if (error == 0)
        error = hf_elf_dynamic(&elf);
    PyObject *list = error == 0 ? PyList_New(0) : homefree_os_error(error, elf.why, path);
    while (list != NULL && (name = hf_elf_needed(&elf, &cursor)) != NULL)
        if (add_library(list, name) != 0)
            Py_CLEAR(list);
    hf_elf_close(&elf);
    Py_DECREF(owner);
    return list;
}

/* ---- names in copies ---- */

/* A copy whose dynamic section is changed. */
struct change {
    struct hf_elf elf;
    int descriptor;
    uint64_t dynamic, strings; /* offsets in the file */
    uint64_t dynamic_size, strings_size;
};

static int open_change(struct change *change, const char *file)
{
    uint64_t address, available;
    Elf64_Phdr header;
    change->descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (change->descriptor < 0)
        return -errno;
    int error = hf_elf_open_descriptor(&change->elf, change->descriptor);
    if (error == 0)
        error = hf_elf_dynamic(&change->elf);
    if (error == 0 && !hf_elf_tag(&change->elf, DT_STRTAB, &address))
        error = -ENOEXEC;
    if (error == 0)
        error = hf_elf_locate(&change->elf, address, &change->strings, &change->strings_size);
    if (error != 0)
        return error;
    for (size_t cursor = 0; hf_elf_segment(&change->elf, &cursor, &header);)
        if (header.p_type == PT_DYNAMIC) {
            change->dynamic_size = header.p_filesz;
            return hf_elf_locate(&change->elf, header.p_vaddr, &change->dynamic, &available);
        }
    return -ENOEXEC;
}

static void close_change(struct change *change)
{
    hf_elf_close(&change->elf);
    if (change->descriptor >= 0)
        close(change->descriptor);
}

static int write_bytes(const struct change *change, const void *bytes, size_t size, uint64_t offset)
{
    const ssize_t written = pwrite(change->descriptor, bytes, size, (off_t)offset);
    return written == (ssize_t)size ? 0 : written < 0 ? -errno : -EIO;
}

/* Overwrites a string of the string table that is as long as `name`. Symbol versions refer to the
 * library by the same string. */
static int write_name(const struct change *change, uint64_t at, const char *name)
{
    const size_t length = strlen(name);
    if (at >= change->strings_size || length >= change->strings_size - at)
        return -ENOEXEC;
    return write_bytes(change, name, length, change->strings + at);
}

/* hf_private_copy() has removed DT_SONAME; the spare entries behind the section's end take a new
 * one. */
static int write_soname(struct change *change, uint64_t at, const char *name)
{
    Elf64_Dyn entry, next;
    size_t index = 0;
    while (hf_elf_dynamic_entry(&change->elf, index, &entry))
        index++;
    const uint64_t end = change->dynamic + index * sizeof entry;
    if ((index + 2) * sizeof entry > change->dynamic_size ||
        hf_elf_read(&change->elf, end, &entry, sizeof entry) != 0 || entry.d_tag != DT_NULL ||
        hf_elf_read(&change->elf, end + sizeof entry, &next, sizeof next) != 0 ||
        next.d_tag != DT_NULL)
        return -ENOTSUP;
    entry = (Elf64_Dyn){.d_tag = DT_SONAME, .d_un.d_val = at};
    const int error = write_name(change, at, name);
    return error != 0 ? error : write_bytes(change, &entry, sizeof entry, end);
}

static int give_name(const char *original, const char *copy, const char *name)
{
    struct hf_elf elf;
    struct change change = {.descriptor = -1};
    uint64_t at = 0;
    int error = hf_elf_open(&elf, original);
    if (error == 0)
        error = hf_elf_dynamic(&elf);
    const char *old = error == 0 ? hf_elf_tag_string(&elf, DT_SONAME) : NULL;
    if (error == 0 &&
        (old == NULL || strlen(old) != strlen(name) || !hf_elf_tag(&elf, DT_SONAME, &at)))
        error = -ENOTSUP;
    hf_elf_close(&elf);
    if (error == 0)
        error = open_change(&change, copy);
    if (error == 0)
        error = write_soname(&change, at, name);
    close_change(&change);
    return error;
}

static int rename_one(const char *copy, const char *old, const char *new)
{
    struct change change = {.descriptor = -1};
    int error = strlen(old) == strlen(new) ? open_change(&change, copy) : -EINVAL;
    Elf64_Dyn entry;
    bool found = false;
    for (size_t i = 0; error == 0 && hf_elf_dynamic_entry(&change.elf, i, &entry); i++) {
        char name[512];
        const uint64_t at = entry.d_un.d_val;
        const size_t length = strlen(old) + 1;
        if (entry.d_tag != DT_NEEDED || length > sizeof name || at >= change.strings_size ||
            length > change.strings_size - at ||
            hf_elf_read(&change.elf, change.strings + at, name, length) != 0 ||
            memcmp(name, old, length) != 0)
            continue;
        found = true;
        error = write_name(&change, at, new);
    }
    close_change(&change);
    return error != 0 || found ? error : -ENOENT;
}

static PyObject *change_names(PyObject *arguments, const char *format,
                              int (*change)(const char *, const char *, const char *), bool paths)
{
    PyObject *first, *second, *first_owner, *second_owner = NULL, *result = NULL;
    const char *last;
    if (!PyArg_ParseTuple(arguments, format, &first, &second, &last) ||
        !PyUnicode_FSConverter(first, &first_owner))
        return NULL;
    if (PyUnicode_FSConverter(second, &second_owner)) {
        const int error =
            change(PyBytes_AsString(first_owner), PyBytes_AsString(second_owner), last);
        result = error == 0 ? (Py_INCREF(Py_None), Py_None)
                            : homefree_os_error(error, NULL, paths ? second : first);
    }
    Py_DECREF(first_owner);
    Py_XDECREF(second_owner);
    return result;
}

static PyObject *give_soname(PyObject *module, PyObject *arguments)
{
    (void)module;
    return change_names(arguments, "OOs:give_soname", give_name, true);
}

static PyObject *loaded_soname(PyObject *module, PyObject *number)
{
    (void)module;
    void *handle = PyLong_AsVoidPtr(number);
    const struct link_map *map;
    const char *strings = NULL;
    uint64_t at = 0;
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return PyErr_Occurred() ? NULL : homefree_os_error(-EINVAL, NULL, number);
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SONAME)
            at = entry->d_un.d_val;
    }
    return PyUnicode_FromString(strings != NULL && at != 0 ? strings + at : "");
}

static PyObject *rename_needed(PyObject *module, PyObject *arguments)
{
    (void)module;
    return change_names(arguments, "OOs:rename_needed", rename_one, false);
}

PyMethodDef homefree_interpreter_methods[] = {
    {"initialisation", initialisation, METH_O, initialisation_doc},
    {"supports_own_gil", supports_own_gil, METH_O, own_gil_doc},
    {"python_libraries", python_libraries, METH_O, libraries_doc},
    {"give_soname", give_soname, METH_VARARGS, soname_doc},
    {"loaded_soname", loaded_soname, METH_O, loaded_doc},
    {"rename_needed", rename_needed, METH_VARARGS, needed_doc},
    {NULL, NULL, 0, NULL},
};
