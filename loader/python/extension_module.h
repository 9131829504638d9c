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
#ifndef HOMEFREE_EXTENSION_MODULE_H
#define HOMEFREE_EXTENSION_MODULE_H

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

/* host_module.c */
extern PyMethodDef homefree_host_methods[];
/* doctor_module.c: homefree.doctor() */
extern PyMethodDef homefree_doctor_methods[];
/* diagnose_module.c: homefree.diagnose() */
extern PyMethodDef homefree_diagnose_methods[];
/* check.c: homefree.check */
extern PyMethodDef homefree_check_methods[];
/* load.c: homefree.load() */
extern PyMethodDef homefree_load_methods[] __attribute__((weak));
/* interpreter_load.c: extension modules in interpreters with a GIL of their own */
extern PyMethodDef homefree_interpreter_methods[];
/* cuda_module.c: homefree.cuda */
extern PyMethodDef homefree_cuda_methods[];
/* warm.c, warm_request.c: homefree.extension */
extern PyMethodDef homefree_warm_methods[];
extern PyMethodDef homefree_request_methods[];
/* crossing.c, parcel_object.c, layout.c, work.c, interpreters_module.c: homefree.interpreters */
extern PyMethodDef homefree_crossing_methods[];
extern PyMethodDef homefree_parcel_methods[];
extern PyMethodDef homefree_layout_methods[];
extern PyMethodDef homefree_work_methods[];
extern PyMethodDef homefree_interpreters_methods[];

/* Returns an array of `count` elements of `size` bytes with room for one more: the array itself, or
 * a larger one that replaces it. NULL if there is no memory. The GIL is not needed. */
void *homefree_grown(void *array, size_t *room, size_t count, size_t size);

/* Adds a part's types and constants; called once for each module object. Returns 0, or -1 with an
 * exception set. */
int homefree_host_exec(PyObject *module);
int homefree_crossing_exec(PyObject *module);
int homefree_parcel_exec(PyObject *module);
int homefree_layout_exec(PyObject *module);

/* Adds the parts for homefree.interpreters, if that was not done yet: importing homefree alone does
 * without them. Returns 0, or -1 with an exception set. */
int homefree_add_interpreters(PyObject *module);
/* The module's state: host_module.c's types of results, and what crossing.c needs at once. */
struct homefree_state {
    PyTypeObject *installed, *owner, *report, *entry;
    PyTypeObject *shared; /* homefree.interpreters.Shared */
    PyTypeObject *parcel; /* homefree.interpreters.Parcel */
    PyTypeObject *view;   /* homefree.interpreters.View, which layout.c makes */
    PyObject *array;      /* numpy.ndarray, once NumPy was seen */
};
int homefree_host_traverse(PyObject *module, visitproc visitor, void *arg);
int homefree_host_clear(PyObject *module);

#endif
