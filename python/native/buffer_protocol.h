/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The seam to CPython's buffer protocol, which Python.h declares for the limited API only from 3.11
 * on. Its layout, functions and numbers have been the same since 3.9; since 3.11 they are part of
 * the stable ABI.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_BUFFER_PROTOCOL_H
#define HOMEFREE_PYTHON_NATIVE_BUFFER_PROTOCOL_H

#include "python/native/module_state.h"

#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030b0000

typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;

int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
int PyBuffer_FillInfo(Py_buffer *view, PyObject *object, void *pointer, Py_ssize_t size,
                      int readonly, int flags);
void PyBuffer_Release(Py_buffer *view);

#    define PyBUF_ANY_CONTIGUOUS 0x98
#    define Py_bf_getbuffer      1

#endif

#endif
