/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/record.h - deleters made from Python code.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_PYTHON_RECORD_H
#define HOMEFREE_PYTHON_RECORD_H

#ifndef Py_PYTHON_H
#    error "include Python.h before homefree/python.h"
#endif
#if PY_VERSION_HEX < 0x03090000 || (defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x03090000)
#    error "homefree/python.h needs CPython 3.9 or later: set Py_LIMITED_API to 0x03090000 or more"
#endif

#include <homefree/alloc.h>
#include <homefree/deleter.h>

#include <pthread.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#    define HF_PY_CAST(type, value)   (reinterpret_cast<type>(value))
#    define HF_PY_NUMBER(type, value) (static_cast<type>(value))
#    define HF_PY_FUNCTION(value)     (reinterpret_cast<void *>(value))
#else
#    define HF_PY_CAST(type, value)   ((type)(value))
#    define HF_PY_NUMBER(type, value) ((type)(value))
#    define HF_PY_FUNCTION(value)     (__extension__(void *)(value))
#endif

#define HF_PY_UNUSED(name) ((void)name)

/* ---- the error indicator ---- */

struct hf_py_error {
    PyObject *type, *value, *traceback;
};

static inline void hf_py_error_keep(struct hf_py_error *kept)
{
#if PY_VERSION_HEX >= 0x030c0000 && (!defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030c0000)
    kept->type = kept->traceback = NULL;
    kept->value = PyErr_GetRaisedException();
#else
    PyErr_Fetch(&kept->type, &kept->value, &kept->traceback);
#endif
}

static inline void hf_py_error_put_back(struct hf_py_error *kept)
{
#if PY_VERSION_HEX >= 0x030c0000 && (!defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030c0000)
    PyErr_SetRaisedException(kept->value);
#else
    PyErr_Restore(kept->type, kept->value, kept->traceback);
#endif
}

/* Returns what the dictionary has for the key, after adding `value` if that is nothing: a new
 * reference; NULL with an exception set. What is there is never replaced, so of several threads
 * that come first, all get the same. */
static inline PyObject *hf_py_first(PyObject *dict, PyObject *key, PyObject *value)
{
    return PyObject_CallMethod(dict, "setdefault", "OO", key, value);
}

/* ---- who holds the GIL ---- */

/* The thread that runs code known to hold the GIL. Only that thread writes the variable, and with
 * the GIL. Before CPython 3.12, where the variable matters, a process has one GIL. It is not
 * thread-local, because every module would then need the dynamic linker's function for that. */
static inline pthread_t *hf_py_holder(void)
{
    static pthread_t holder;
    return &holder;
}

static inline int hf_py_holds(void)
{
    return __atomic_load_n(hf_py_holder(), __ATOMIC_RELAXED) == pthread_self();
}

/* Marks this thread as the holder. Result: for hf_py_hold_end(); 0 if it was marked already. */
static inline int hf_py_hold_begin(void)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030c0000
    return 0;
#else
    int begun = !hf_py_holds();
    __atomic_store_n(hf_py_holder(), pthread_self(), __ATOMIC_RELAXED);
    return begun;
#endif
}

static inline void hf_py_hold_end(int begun)
{
    if (begun)
        __atomic_store_n(hf_py_holder(), 0, __ATOMIC_RELAXED);
}

/* ---- deleters ---- */

/*
 * Makes a deleter, as hf_release_new() does, and raises exceptions.
 *
 * Parameters:
 *   pointer  in: what to free; not NULL
 *   name     in: copied; may be NULL
 *   destroy  in: frees the pointer; must not call Python; not NULL
 * Result: a deleter with one reference; NULL with an exception set.
 * Errors:
 *   ValueError   pointer or destroy is NULL
 *   MemoryError  there is no memory
 * Frees: on success the deleter owns the pointer, and the caller drops the reference with
 *   hf_release_drop(). On error the caller still owns the pointer.
 * Threads: attached; takes the dynamic loader's lock for the first function of each shared object.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline struct hf_release *hf_python_record(void *pointer, const char *name,
                                                  void (*destroy)(void *pointer))
{
    struct hf_release *record = NULL;
    if (pointer == NULL)
        PyErr_SetString(PyExc_ValueError,
                        "homefree: the pointer is NULL: there is nothing to free; check the "
                        "allocation before sharing it with Python");
    else if (destroy == NULL)
        PyErr_SetString(PyExc_ValueError,
                        "homefree: destroy is NULL; pass the function that frees the pointer "
                        "(hf_free frees any), or use PyCapsule_New for memory that nobody frees");
    else if (hf_release_new(&record, pointer, destroy, name) != 0)
        PyErr_NoMemory();
    return record;
}

/*
 * Makes a deleter of a space's memory, as hf_release_new_space() does, and raises exceptions.
 *
 * Parameters:
 *   pointer  in: the first byte of a block of hf_space_alloc(); not NULL
 *   name     in: copied; may be NULL
 *   stream   in: the stream that uses the memory last, HF_STREAM_DONE or HF_STREAM_ANY
 * Result: a deleter with one reference; NULL with an exception set.
 * Errors:
 *   ValueError   pointer is NULL
 *   MemoryError  there is no memory
 * Frees: on success the deleter owns the pointer, and the caller drops the reference with
 *   hf_release_drop(). On error the caller still owns the pointer.
 * Threads: attached.
 * Fork: safe; in the child, memory of a space other than HF_SPACE_HOST is leaked and counted.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline struct hf_release *hf_python_space_record(void *pointer, const char *name,
                                                        void *stream)
{
    struct hf_release *record = NULL;
    if (pointer == NULL)
        PyErr_SetString(PyExc_ValueError,
                        "homefree: the pointer is NULL: there is nothing to free; check what "
                        "hf_space_alloc() returned before sharing the memory with Python");
    else if (hf_release_new_space(&record, pointer, stream, name) != 0)
        PyErr_NoMemory();
    return record;
}

/*
 * Drops one reference to a deleter, as hf_release_drop() does, in code that certainly holds the
 * GIL.
 *
 * The error indicator is preserved. An object of hf_object_hold() is released even if the thread
 * cannot find out by itself that it holds the GIL, which is so before CPython 3.12 in a process
 * with several interpreters.
 *
 * Parameters:
 *   record  in/out: the deleter; NULL does nothing
 * Result: none.
 * Errors: none.
 * Frees: the caller's reference, and with the last one the pointer.
 * Threads: attached; the freeing function runs on the calling thread.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
 */
static inline void hf_python_drop(struct hf_release *record)
{
    struct hf_py_error kept;
    int begun;
    hf_py_error_keep(&kept);
    begun = hf_py_hold_begin();
    hf_release_drop(record);
    hf_py_hold_end(begun);
    hf_py_error_put_back(&kept);
}

#ifdef __cplusplus
}
#endif
#endif
