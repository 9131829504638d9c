/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the parts of the extension module `homefree._homefree`.
 *
 * Each part is a file with a table of methods; extension_module.c combines them into one module.
 * The extension is thin: it converts Python's arguments to those of homefree.h, and results back.
 * It uses the limited API of 3.9 (a part that needs more builds an extension of its own), keeps no
 * global state, and holds nothing that outlives the module except what libhomefree holds. A
 * free-threaded CPython before 3.15 has no limited API: the same source is compiled for that
 * version alone.
 *
 * Locks: none of its own. Functions are called by attached threads (with the GIL held, if there is
 * one) and detach before they take the loader's lock (see check.c). In a free-threaded CPython
 * several threads may be in any of them at once: they share the module's state, which is written
 * once, before anybody can call them (`array` by an atomic store, when it is known), and what
 * libhomefree guards.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_MODULE_STATE_H
#define HOMEFREE_PYTHON_NATIVE_MODULE_STATE_H

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h> /* says whether this CPython is free-threaded */
#ifndef Py_GIL_DISABLED
#    define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

/* Py_mod_gil and Py_MOD_GIL_NOT_USED of 3.13, which the limited API of 3.9 does not declare. */
#define HOMEFREE_SLOT_GIL     4
#define HOMEFREE_GIL_NOT_USED ((void *)1)

/* Around code that one thread at a time may run with an object, and that runs no Python. With a
 * GIL, every function is such code. */
#ifdef Py_GIL_DISABLED
#    define HOMEFREE_BEGIN_ALONE(object) Py_BEGIN_CRITICAL_SECTION(object)
#    define HOMEFREE_END_ALONE()         Py_END_CRITICAL_SECTION()
#else
#    define HOMEFREE_BEGIN_ALONE(object) ((void)(object))
#    define HOMEFREE_END_ALONE()         ((void)0)
#endif

/* Returns an array of `count` elements of `size` bytes with room for one more: the array itself, or
 * a larger one that replaces it. NULL if there is no memory. The GIL is not needed. */
void *homefree_grown(void *array, size_t *capacity, size_t count, size_t size);

/* Why an errno is one of a function's, and what to do; a table of them ends with {0, NULL}. */
struct homefree_remedy {
    int error;        /* negative */
    const char *text; /* of a RuntimeError; NULL: a MemoryError */
};

/* Sets the exception of a negative errno, by the table, which may be NULL, or else OSError. Returns
 * NULL. */
PyObject *homefree_failed(int error, const struct homefree_remedy *remedies);

/* The same; None if the error is 0. */
PyObject *homefree_done(int error, const struct homefree_remedy *remedies);

/* Sets OSError with a text (NULL: strerror's) and a path (or NULL). Returns NULL. */
PyObject *homefree_os_error(int error, const char *text, PyObject *path);

/* Appends to a list, which may be NULL as the item may, and takes over the item's reference.
 * Returns 0, or -1 with an exception set. */
int homefree_append(PyObject *list, PyObject *item);

/* A list that a visitor in C fills without the GIL. */
struct homefree_rows {
    void *items;
    size_t count, capacity;
    int failed; /* there was no memory for one */
};

/* Adds a copy of an item of `size` bytes. */
void homefree_rows_add(struct homefree_rows *rows, const void *item, size_t size);

/* Adds a type to the module under a name; `type` may be NULL. Returns 0, or -1 with an exception.
 */
int homefree_add_type(PyObject *module, const char *name, PyTypeObject *type);

/* Whether an object is a module's definition with a slot of this number and value: a bool. */
PyObject *homefree_has_slot(PyObject *made, int number, void *value);

/* Py_mod_multiple_interpreters and its value, which the limited API of 3.9 does not declare. The
 * numbers are part of the stable ABI of the versions that know them (3.12). */
#define HOMEFREE_SLOT_INTERPRETERS   3
#define HOMEFREE_PER_INTERPRETER_GIL ((void *)2)

/* The module's state: host_module.c's types of results, and what crossing.c needs at once. */
struct homefree_state {
    PyTypeObject *installed, *owner, *report, *entry, *trimmed;
    PyTypeObject *shared;  /* homefree.interpreters.Shared */
    PyTypeObject *message; /* homefree.interpreters.Message */
    PyTypeObject *view;    /* homefree.interpreters.View, which layout.c makes */
    PyObject *array;       /* numpy.ndarray, once NumPy was seen */
};

static inline struct homefree_state *homefree_state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

#endif
