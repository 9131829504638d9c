/*
 * Shared by the parts of the extension module `homefree._homefree`.
 *
 * Each part is a file with a table of methods; extension_module.c combines them into one module.
 * The extension is thin: it converts Python's arguments to those of homefree.h, and results back.
 * It uses the limited API of 3.9 (a part that needs more builds an extension of its own), keeps no
 * global state, and holds nothing that outlives the module except what libhomefree holds.
 *
 * Locks: none of its own. Functions are called with the GIL held and release it before they take
 * the loader's lock (see check.c).
 */
#ifndef HOMEFREE_EXTENSION_MODULE_H
#define HOMEFREE_EXTENSION_MODULE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_GIL_DISABLED
#    define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

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
/* warm.c: homefree.extension */
extern PyMethodDef homefree_warm_methods[];

/* Returns an array of `count` elements of `size` bytes with room for one more: the array itself, or
 * a larger one that replaces it. NULL if there is no memory. The GIL is not needed. */
void *homefree_grown(void *array, size_t *room, size_t count, size_t size);

/* Adds a part's types and constants; called once for each module object. Returns 0, or -1 with an
 * exception set. */
int homefree_host_exec(PyObject *module);
/* The module's state belongs to host_module.c. */
size_t homefree_host_state_size(void);
int homefree_host_traverse(PyObject *module, visitproc visitor, void *arg);
int homefree_host_clear(PyObject *module);

#endif
