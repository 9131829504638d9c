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

/* The module's state: host_module.c's types of results, and what crossing.c needs at once. */
struct homefree_state {
    PyTypeObject *installed, *owner, *report, *entry, *trimmed;
    PyTypeObject *shared;  /* homefree.interpreters.Shared */
    PyTypeObject *message; /* homefree.interpreters.Message */
    PyTypeObject *view;    /* homefree.interpreters.View, which layout.c makes */
    PyObject *array;       /* numpy.ndarray, once NumPy was seen */
};

#endif
