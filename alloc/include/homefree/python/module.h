/*
 * homefree/python/module.h - the name of a module's init function.
 */
#ifndef HOMEFREE_HOMEFREE_PYTHON_MODULE_H
#define HOMEFREE_HOMEFREE_PYTHON_MODULE_H

/*
 * Expands to the name of the function that Python calls in this module, PyInit_<name>.
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

#endif
