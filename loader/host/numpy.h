/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The interface to NumPy: its data handler (NEP 49).
 *
 * NumPy keeps the current handler in a context variable, which new threads do not inherit. Every
 * thread starts with NumPy's default handler, and an array keeps the handler with which it was
 * created. This file therefore replaces the functions of the default handler in place: this affects
 * every thread and context, and leaves handlers that users have set themselves alone.
 */
#ifndef HOMEFREE_LOADER_HOST_NUMPY_H
#define HOMEFREE_LOADER_HOST_NUMPY_H

#include "loader/host/cpython.h"

#include <homefree/homefree.h>

/*
 * Replaces the functions of the default handler of the NumPy that the calling thread's interpreter
 * has imported. If that handler is unknown, sets a handler of homefree's own for the calling
 * thread's context. The thread is attached and has no exception set. Takes no lock that is held
 * while Python code runs.
 */
enum hf_python_numpy hf_numpy_install(const struct hf_cpython *cpython);

/* Whether an array with this handler (a capsule, or NULL) gives its data to homefree's free(). The
 * thread is attached and has no exception set. */
bool hf_numpy_frees(const struct hf_cpython *cpython, struct hf_py_object *capsule);

/* Makes arrays allocate from NumPy's previous functions again. */
void hf_numpy_uninstall(void);

#endif
