/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/module.h - the names of the functions that Python calls in a module.
 */
#ifndef HOMEFREE_PYTHON_MODULE_H
#define HOMEFREE_PYTHON_MODULE_H

/*
 * Expands to the name of the function that every Python calls in this module, PyInit_<name>.
 *
 * The build passes the name as HOMEFREE_MODULE_NAME, so that the source need not repeat it:
 *
 *     PyMODINIT_FUNC HF_MODULE_INIT(void)
 *
 * homefree.setuptools, homefree.extension.load() and CMake's homefree_exports() define it.
 *
 * Result: an identifier.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
#define HF_MODULE_INIT               HF_PY_INIT_OF(HOMEFREE_MODULE_NAME)
#define HF_PY_INIT_OF(name)          HF_PY_INIT_OF_EXPANDED(name)
#define HF_PY_INIT_OF_EXPANDED(name) PyInit_##name

/*
 * Expands to the name of the function that CPython 3.15 and later look for first in this module,
 * PyModExport_<name> (PEP 793). A module may have it instead of the other function, or beside it
 * for earlier versions:
 *
 *     PyMODEXPORT_FUNC HF_MODULE_EXPORT(void)
 *
 * The name comes from HOMEFREE_MODULE_NAME, as for HF_MODULE_INIT.
 *
 * Result: an identifier.
 * Errors: none.
 * Frees: nothing.
 * Threads: safe.
 * Fork: safe.
 * Signals: safe.
 * Since: 1.0
 */
#define HF_MODULE_EXPORT               HF_PY_EXPORT_OF(HOMEFREE_MODULE_NAME)
#define HF_PY_EXPORT_OF(name)          HF_PY_EXPORT_OF_EXPANDED(name)
#define HF_PY_EXPORT_OF_EXPANDED(name) PyModExport_##name

#endif
