/*
 * What the parts of the extension module `homefree._homefree` share.
 *
 * Each part is a file with a table of methods; module.c puts them into one module. The extension
 * is thin: it turns Python's arguments into those of homefree.h, and results back. It uses the
 * limited API of 3.9 (a part that needs another one builds an extension of its own), keeps no
 * global state, and holds nothing that outlives the module but what libhomefree holds.
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
/* doctor.c: homefree.doctor() */
extern PyMethodDef homefree_doctor_methods[];
/* check.c: homefree.check */
extern PyMethodDef homefree_check_methods[];
/* load.c: homefree.load() */
extern PyMethodDef homefree_load_methods[] __attribute__((weak));
/* warm.c: homefree.extension */
extern PyMethodDef homefree_warm_methods[];

/* Types and constants of a part; called once for each module object. Result: 0, or -1 with an
 * exception set. */
int homefree_host_exec(PyObject *module);
/* The module's state is host_module.c's. */
size_t homefree_host_state_size(void);
int homefree_host_traverse(PyObject *module, visitproc visitor, void *arg);
int homefree_host_clear(PyObject *module);

#endif
