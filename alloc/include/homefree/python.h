/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python.h - memory that is shared with Python, and the deleter that frees it.
 *
 * Include it after Python.h, in C11 or C++17, with the full or the limited API (Py_LIMITED_API
 * 0x03090000 or later), for CPython 3.9 or later. Every function is static inline and ends in
 * hf_release_*(), so a module needs libhomefree and nothing else.
 *
 * Everything is built on refcounted deleters (homefree/deleter.h). Each object made here takes a
 * reference of its own and drops it when it is destroyed. One piece of memory can thus be in a
 * capsule, an array, three DLPack tensors and a C thread at once. It is freed once, on the thread
 * that drops the last reference, also during or after interpreter exit, and without calling Python.
 *
 *     struct hf_release *memory = hf_python_record(matrix, "matrix", hf_free);
 *     if (memory == NULL)
 *         return NULL; // an exception is set; matrix is still ours
 *     PyObject *array = hf_numpy_array(memory, matrix, &layout);
 *     hf_release_drop(memory);
 *     return array;
 *
 * Each header can also be included alone:
 *
 *   homefree/python/record.h   deleters
 *   homefree/python/capsule.h  capsules
 *   homefree/python/buffer.h   the buffer protocol, and NumPy arrays without NumPy's headers
 *   homefree/python/dlpack.h   DLPack tensors
 *   homefree/python/dlpack_request.h  what __dlpack__() does
 *   homefree/python/arrow.h    Arrow's capsules
 *   homefree/python/object.h   Python objects that C structures hold
 *   homefree/python/numpy.h    NumPy's C API; after numpy/arrayobject.h
 *   homefree/python/module.h   the name of a module's init function
 *
 * Besides the rules of homefree/base.h, these hold for all functions:
 *
 *   - Threads: "attached" means that the caller holds the GIL or, on free-threaded CPython, is
 *     attached to an interpreter. The last drop of a reference needs neither.
 *   - Results: on error a function returns NULL or -1, with an exception that says what to do. It
 *     has then taken no reference, and the caller still owns what it passed in.
 *   - Interpreters: any. They share nothing but deleters.
 *   - A destroy function must not call Python, and may run on any thread. The error indicator is
 *     preserved around it. To release a Python object, use hf_object_hold().
 *   - Names that begin with hf_py_ or HF_PY_ are internal.
 */
#ifndef HOMEFREE_PYTHON_H
#    define HOMEFREE_PYTHON_H

#    include <homefree/homefree.h>
#    include <homefree/python/arrow.h>
#    include <homefree/python/buffer.h>
#    include <homefree/python/capsule.h>
#    include <homefree/python/dlpack.h>
#    include <homefree/python/dlpack_request.h>
#    include <homefree/python/module.h>
#    include <homefree/python/object.h>
#    include <homefree/python/record.h>

#endif

/* Outside the guard: numpy/arrayobject.h may have been included since. */
#include <homefree/python/numpy.h>
