/*
 * homefree/python.h - memory that Python shares, and a destructor that goes with it.
 *
 * Include it after Python.h, from C11 or C++17, with the full API or the limited one
 * (Py_LIMITED_API 0x03090000 or later), CPython 3.9 or later. Everything is static inline and ends
 * in hf_release_*() of homefree/homefree.h, so a module needs libhomefree and nothing else.
 *
 * All of it stands on a record (struct hf_release): a pointer, what frees it, and how many hold on.
 * Each maker below takes a reference of its own; what it made gives it back when it goes. So one
 * piece of memory may be in a capsule, an array, three DLPack tensors and a C thread at once, and
 * is freed once, when the last is gone: on that thread, at interpreter exit or after it, without
 * any call into Python.
 *
 *     struct hf_release *memory = hf_python_record(matrix, "matrix", hf_free);
 *     if (memory == NULL)
 *         return NULL; // an exception is set; matrix is still ours
 *     PyObject *array = hf_numpy_array(memory, matrix, &layout);
 *     hf_release_drop(memory);
 *     return array;
 *
 * Records and capsules are here; python/dlpack.h, buffer.h (and arrays of NumPy), arrow.h and
 * object.h come with it.
 *
 * Rules that hold for every function unless its comment says otherwise:
 *   - threads: the caller holds the GIL (free-threaded CPython: is attached). What frees, in the
 *     end, needs nothing of Python and runs wherever the last reference goes;
 *   - result: NULL or -1 with a Python exception that says what to do. A call that failed holds
 *     nothing: the caller's pointers and references are as they were;
 *   - interpreters: any; nothing is shared between them but records;
 *   - fork, signals: as in homefree.h; never from a signal handler;
 *   - a destroy function must not call Python, may run on any thread, and finds the error indicator
 *     as it was afterwards. To let go of a Python object, see hf_object_hold();
 *   - names that begin with hf_py_ are this header's own;
 *   - since homefree 1.0.
 */
#ifndef HOMEFREE_PYTHON_H
#define HOMEFREE_PYTHON_H

#ifndef Py_PYTHON_H
#    error "include Python.h before homefree/python.h"
#endif
#if PY_VERSION_HEX < 0x03090000 || (defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x03090000)
#    error "homefree/python.h needs CPython 3.9 or later: set Py_LIMITED_API to 0x03090000 or more"
#endif

#include <homefree/homefree.h>

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#ifdef Py_LIMITED_API
#    include <dlfcn.h>
#    include <stdlib.h>
#endif

/* 1 where hf_buffer_new() and hf_numpy_array() exist: the buffer protocol is in the full API, and
 * in the limited one from 3.11 on (Py_LIMITED_API 0x030b0000, with headers of 3.11 or later). */
#if !defined(Py_LIMITED_API) || (Py_LIMITED_API + 0 >= 0x030b0000 && PY_VERSION_HEX >= 0x030b0000)
#    define HF_HAVE_PYTHON_BUFFER 1
#else
#    define HF_HAVE_PYTHON_BUFFER 0
#endif

/*
 * The name of the function that Python calls in this module, PyInit_<name>, where the build gives
 * the name as HOMEFREE_MODULE_NAME (homefree.setuptools, homefree.extension.load and CMake's
 * homefree_exports() do), so that the source need not repeat it:
 *
 *     PyMODINIT_FUNC HF_MODULE_INIT(void)
 */
#define HF_MODULE_INIT               HF_PY_INIT_OF(HOMEFREE_MODULE_NAME)
#define HF_PY_INIT_OF(name)          HF_PY_INIT_OF_EXPANDED(name)
#define HF_PY_INIT_OF_EXPANDED(name) PyInit_##name

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

/* ---- records ---- */

/*
 * hf_release_new() with exceptions.
 *   pointer  what to free; not NULL
 *   name     copied; may be NULL
 *   destroy  frees the pointer, once; not NULL
 * Result: a record with one reference, which the caller drops with hf_release_drop(); NULL with
 * ValueError or MemoryError, and then the pointer is still the caller's.
 * Takes the dynamic loader's lock the first time that a shared object's function is given.
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

/* The thread that is in code known to hold the GIL. Only that thread writes it, with the GIL;
 * before 3.12, where it matters, there is one in the process. No thread-local: that would make
 * every module need ld.so's function for it. */
static inline pthread_t *hf_py_holder(void)
{
    static pthread_t holder;
    return &holder;
}

static inline int hf_py_holds(void)
{
    return __atomic_load_n(hf_py_holder(), __ATOMIC_RELAXED) == pthread_self();
}

/* Says so; whether it had to be said. */
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

/*
 * hf_release_drop() for code that holds the GIL for certain: the error indicator stays as it was,
 * and an object of hf_object_hold() is let go of also where a thread cannot find out by itself
 * (before 3.12, in a process with more interpreters). NULL does nothing.
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

/* ---- capsules ---- */

/* The capsule's record is its context. */
static inline void hf_py_capsule_destroy(PyObject *capsule)
{
    struct hf_release *record;
    void *context = PyCapsule_GetContext(capsule);
    if (!hf_release_is(context))
        return; /* released before, or the context is somebody else's by now: leaked, still live */
    record = HF_PY_CAST(struct hf_release *, context);
    PyCapsule_SetContext(capsule, NULL);
    if (PyCapsule_GetName(capsule) == hf_release_name(record))
        PyCapsule_SetName(capsule, NULL);
    hf_python_drop(record);
}

/*
 * A PyCapsule of a record's pointer and name, which takes a reference of its own.
 * Result: a new reference; NULL with an exception.
 */
static inline PyObject *hf_capsule_of(struct hf_release *record)
{
    PyObject *capsule =
        PyCapsule_New(hf_release_pointer(record), hf_release_name(record), hf_py_capsule_destroy);
    if (capsule == NULL)
        return NULL;
    hf_release_take(record);
    PyCapsule_SetContext(capsule, record);
    return capsule;
}

/*
 * A PyCapsule that frees its pointer when it goes: exactly once, on whatever thread, also at
 * interpreter exit, when every other object of the module is gone. The shared object that holds
 * destroy stays loaded.
 *   pointer  what the capsule holds; not NULL
 *   name     PyCapsule's name; copied, so the caller's may go; may be NULL
 *   destroy  frees the pointer; not NULL
 * Result: a new reference; NULL with ValueError or MemoryError, and then nothing was freed.
 *
 * Others may rename the capsule, or give it another name's memory that goes: it is freed all the
 * same. Others may take its destructor away (PyCapsule_SetDestructor): they must call the old one,
 * which may be called any number of times, or hf_release_run(hf_capsule_record(capsule)); until
 * then the record counts as live. The capsule's context is homefree's: who replaces it leaks the
 * pointer.
 */
static inline PyObject *hf_capsule_new(void *pointer, const char *name,
                                       void (*destroy)(void *pointer))
{
    PyObject *capsule;
    struct hf_release *record = hf_python_record(pointer, name, destroy);
    if (record == NULL)
        return NULL;
    capsule = hf_capsule_of(record);
    if (capsule == NULL)
        hf_release_forbid(record);
    hf_release_drop(record);
    return capsule;
}

/*
 * The record of a capsule of homefree's. Take a reference (hf_release_take) to keep the memory when
 * the capsule, or the interpreter, is gone.
 * Result: borrowed from the capsule; NULL with TypeError where it is no capsule, ValueError where
 * it is not one of homefree's or was released.
 */
static inline struct hf_release *hf_capsule_record(PyObject *capsule)
{
    void *context;
    if (capsule == NULL || !PyCapsule_CheckExact(capsule)) {
        PyErr_SetString(PyExc_TypeError, "homefree: not a capsule; pass one that hf_capsule_new() "
                                         "or hf_capsule_of() made");
        return NULL;
    }
    context = PyCapsule_GetContext(capsule);
    if (!hf_release_is(context)) {
        PyErr_SetString(PyExc_ValueError,
                        "homefree: this capsule has no record: it was not made by "
                        "hf_capsule_new() or hf_capsule_of(), or it was released already");
        return NULL;
    }
    return HF_PY_CAST(struct hf_release *, context);
}

/* ---- what else there is ---- */

#include <homefree/python/arrow.h>
#include <homefree/python/buffer.h>
#include <homefree/python/dlpack.h>
#include <homefree/python/object.h>

/* ---- the host's allocators ---- */

#ifdef __cplusplus
}
#endif

#endif /* HOMEFREE_PYTHON_H */

/* ---- NumPy's C API ---- */

/* There when numpy/arrayobject.h was included before; this header may be included again after it.
 */
#if defined(NPY_ARRAY_OWNDATA) && !defined(HOMEFREE_PYTHON_NUMPY_H)
#define HOMEFREE_PYTHON_NUMPY_H

/*
 * Makes a record the base of an array over its memory (PyArray_SimpleNewFromData and its kind), so
 * that the memory lives as long as the array and its views.
 *   array   one that owns no data and has no base; NumPy's C API must have been imported
 *   memory  the record; the array takes a reference
 * Result: 0; -1 with ValueError where the array owns its data (NumPy would free what the record
 * frees) or has a base, or MemoryError.
 */
static inline int hf_numpy_own(PyArrayObject *array, struct hf_release *memory)
{
    PyObject *capsule;
    if (PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA)) {
        PyErr_SetString(PyExc_ValueError,
                        "homefree: this array owns its data, and NumPy would free it a second "
                        "time; make it with PyArray_SimpleNewFromData() and leave OWNDATA alone");
        return -1;
    }
    capsule = hf_capsule_of(memory);
    return capsule != NULL ? PyArray_SetBaseObject(array, capsule) : -1; /* takes the capsule */
}
#endif
