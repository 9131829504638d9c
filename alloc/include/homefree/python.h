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

/* How deep this thread is in code that is known to hold the GIL. */
static inline int *hf_py_held_depth(void)
{
    static __thread int depth;
    return &depth;
}

/*
 * hf_release_drop() for code that holds the GIL for certain: the error indicator stays as it was,
 * and an object of hf_object_hold() is let go of also where a thread cannot find out by itself
 * (before 3.12, in a process with more interpreters). NULL does nothing.
 */
static inline void hf_python_drop(struct hf_release *record)
{
    struct hf_py_error kept;
    hf_py_error_keep(&kept);
    ++*hf_py_held_depth();
    hf_release_drop(record);
    --*hf_py_held_depth();
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

/* ---- DLPack ---- */

/*
 * DLPack's structs under names of our own, laid out as dlpack.h lays them out (DLPack 0.2 to 1.x on
 * 64-bit machines), so that both headers may be included. A DLManagedTensor is a struct
 * hf_dl_managed, a DLManagedTensorVersioned a struct hf_dl_managed_versioned.
 */
struct hf_dl_device {
    int32_t type; /* enum hf_dl_device_type */
    int32_t id;
};

struct hf_dl_type {
    uint8_t code; /* enum hf_dl_type_code */
    uint8_t bits; /* of one lane */
    uint16_t lanes;
};

enum hf_dl_device_type {
    HF_DL_CPU = 1,
    HF_DL_CUDA = 2,
    HF_DL_CUDA_HOST = 3,
    HF_DL_CUDA_MANAGED = 13
};
enum hf_dl_type_code {
    HF_DL_INT = 0,
    HF_DL_UINT = 1,
    HF_DL_FLOAT = 2,
    HF_DL_OPAQUE = 3,
    HF_DL_BFLOAT = 4,
    HF_DL_COMPLEX = 5,
    HF_DL_BOOL = 6
};

struct hf_dl_tensor {
    void *data; /* of element 0, less byte_offset; the device's address */
    struct hf_dl_device device;
    int32_t ndim;
    struct hf_dl_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
};

struct hf_dl_managed {
    struct hf_dl_tensor tensor;
    void *context;
    void (*deleter)(struct hf_dl_managed *self);
};

struct hf_dl_managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct hf_dl_managed_versioned *self);
    uint64_t flags; /* HF_DL_READ_ONLY, HF_DL_COPIED */
    struct hf_dl_tensor tensor;
};

#define HF_DL_MAJOR     1
#define HF_DL_MINOR     0
#define HF_DL_READ_ONLY (UINT64_C(1) << 0)
#define HF_DL_COPIED    (UINT64_C(1) << 1)
#define HF_DL_NDIM_MAX  64

/* 0, or -1 with an exception, for what a maker was given. */
static inline int hf_py_dl_check(const struct hf_dl_tensor *tensor)
{
    int empty = 0;
    int32_t i;
    const char *wrong = NULL;
    if (tensor->ndim < 0 || tensor->ndim > HF_DL_NDIM_MAX) {
        wrong = "homefree: a DLPack tensor has 0 to 64 dimensions";
    } else if (tensor->ndim > 0 && tensor->shape == NULL) {
        wrong = "homefree: the DLPack tensor has no shape; give one length for each dimension";
    } else if (tensor->dtype.bits == 0 || tensor->dtype.lanes == 0) {
        wrong =
            "homefree: the DLPack tensor's type has no bits or no lanes; a plain type has 1 lane";
    } else {
        for (i = 0; i < tensor->ndim; i++) {
            if (tensor->shape[i] < 0)
                wrong = "homefree: a length in the DLPack tensor's shape is negative";
            empty = empty || tensor->shape[i] == 0;
        }
        if (tensor->data == NULL && !empty)
            wrong = "homefree: the DLPack tensor's data is NULL, but it is not empty; a tensor "
                    "without data has a length of 0 in its shape";
    }
    if (wrong != NULL)
        PyErr_SetString(PyExc_ValueError, wrong);
    return wrong != NULL ? -1 : 0;
}

/* Bytes for the shape and the strides. */
static inline size_t hf_py_dl_room(const struct hf_dl_tensor *tensor)
{
    return 2 * sizeof(int64_t) * HF_PY_NUMBER(size_t, tensor->ndim);
}

/* Copies a tensor; shape and strides go to `lengths`, which has room for both. 0, or -1 with an
 * exception. */
static inline int hf_py_dl_copy(struct hf_dl_tensor *to, const struct hf_dl_tensor *from,
                                int64_t *lengths)
{
    int64_t step = 1;
    int32_t i, ndim = from->ndim;
    *to = *from;
    to->shape = lengths;
    to->strides = lengths + ndim;
    for (i = ndim - 1; i >= 0; i--) {
        to->shape[i] = from->shape[i];
        to->strides[i] = from->strides != NULL ? from->strides[i] : step;
        if (__builtin_mul_overflow(step, from->shape[i] > 0 ? from->shape[i] : 1, &step)) {
            PyErr_SetString(PyExc_ValueError,
                            "homefree: the DLPack tensor's shape is larger than memory can be");
            return -1;
        }
    }
    return 0;
}

/* The deleters: no Python. A consumer that calls one twice finds no record the second time, as long
 * as nobody got the memory in between. */
static inline void hf_py_dl_delete(struct hf_dl_managed *self)
{
    void *record = self->context;
    if (!hf_release_is(record))
        return;
    self->context = NULL;
    hf_release_drop(HF_PY_CAST(struct hf_release *, record));
    hf_free(self);
}

static inline void hf_py_dl_delete_versioned(struct hf_dl_managed_versioned *self)
{
    void *record = self->context;
    if (!hf_release_is(record))
        return;
    self->context = NULL;
    hf_release_drop(HF_PY_CAST(struct hf_release *, record));
    hf_free(self);
}

/* A capsule that nobody consumed still has its first name. */
static inline void hf_py_dl_capsule_destroy(PyObject *capsule)
{
    struct hf_py_error kept;
    hf_py_error_keep(&kept);
    ++*hf_py_held_depth();
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct hf_dl_managed *managed =
            HF_PY_CAST(struct hf_dl_managed *, PyCapsule_GetPointer(capsule, "dltensor"));
        if (managed->deleter != NULL)
            managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct hf_dl_managed_versioned *managed = HF_PY_CAST(
            struct hf_dl_managed_versioned *, PyCapsule_GetPointer(capsule, "dltensor_versioned"));
        if (managed->deleter != NULL)
            managed->deleter(managed);
    }
    --*hf_py_held_depth();
    hf_py_error_put_back(&kept);
}

/*
 * A DLPack capsule named "dltensor", for a consumer that asked for no version.
 *   memory  the record of what the data lies in; the tensor holds a reference
 *   tensor  what to share; copied, with its shape and strides (NULL: row-major)
 * Result: a new reference; NULL with ValueError or MemoryError.
 * The tensor's deleter may run on any thread, without the GIL, and after Py_Finalize().
 */
static inline PyObject *hf_dlpack_new(struct hf_release *memory, const struct hf_dl_tensor *tensor)
{
    struct hf_dl_managed *managed;
    PyObject *capsule;
    if (hf_py_dl_check(tensor) != 0)
        return NULL;
    managed =
        HF_PY_CAST(struct hf_dl_managed *, hf_malloc(sizeof *managed + hf_py_dl_room(tensor)));
    if (managed == NULL)
        return PyErr_NoMemory();
    capsule = hf_py_dl_copy(&managed->tensor, tensor, HF_PY_CAST(int64_t *, managed + 1)) == 0
                  ? PyCapsule_New(managed, "dltensor", hf_py_dl_capsule_destroy)
                  : NULL;
    if (capsule == NULL) {
        hf_free(managed);
        return NULL;
    }
    hf_release_pin(HF_PY_FUNCTION(hf_py_dl_delete));
    hf_release_take(memory);
    managed->context = memory;
    managed->deleter = hf_py_dl_delete;
    return capsule;
}

/*
 * The same, named "dltensor_versioned", of DLPack 1.0.
 *   flags  HF_DL_READ_ONLY: consumers must not write; HF_DL_COPIED: this is a copy of the
 *          producer's data
 */
static inline PyObject *hf_dlpack_new_versioned(struct hf_release *memory,
                                                const struct hf_dl_tensor *tensor, uint64_t flags)
{
    struct hf_dl_managed_versioned *managed;
    PyObject *capsule;
    if (hf_py_dl_check(tensor) != 0)
        return NULL;
    managed = HF_PY_CAST(struct hf_dl_managed_versioned *,
                         hf_malloc(sizeof *managed + hf_py_dl_room(tensor)));
    if (managed == NULL)
        return PyErr_NoMemory();
    capsule = hf_py_dl_copy(&managed->tensor, tensor, HF_PY_CAST(int64_t *, managed + 1)) == 0
                  ? PyCapsule_New(managed, "dltensor_versioned", hf_py_dl_capsule_destroy)
                  : NULL;
    if (capsule == NULL) {
        hf_free(managed);
        return NULL;
    }
    hf_release_pin(HF_PY_FUNCTION(hf_py_dl_delete_versioned));
    hf_release_take(memory);
    managed->major = HF_DL_MAJOR;
    managed->minor = HF_DL_MINOR;
    managed->flags = flags;
    managed->context = memory;
    managed->deleter = hf_py_dl_delete_versioned;
    return capsule;
}

/*
 * What an object's __dlpack__(max_version=…) returns: the capsule that the consumer understands.
 *   max_version  as the consumer passed it: None (or NULL) or a tuple (major, minor)
 * Result: a new reference; NULL with TypeError where max_version is neither, BufferError where the
 * memory is read-only and the consumer is too old to be told so.
 */
static inline PyObject *hf_dlpack_export(struct hf_release *memory,
                                         const struct hf_dl_tensor *tensor, uint64_t flags,
                                         PyObject *max_version)
{
    long major = 0;
    if (max_version != NULL && max_version != Py_None) {
        PyObject *first = PySequence_Check(max_version) ? PySequence_GetItem(max_version, 0) : NULL;
        if (first != NULL) {
            major = PyLong_AsLong(first);
            Py_DECREF(first);
        }
        if (first == NULL || (major == -1 && PyErr_Occurred() != NULL)) {
            PyErr_SetString(PyExc_TypeError,
                            "max_version is a tuple (major, minor) of integers, or None");
            return NULL;
        }
    }
    if (major >= HF_DL_MAJOR)
        return hf_dlpack_new_versioned(memory, tensor, flags);
    if ((flags & HF_DL_READ_ONLY) != 0) {
        PyErr_SetString(PyExc_BufferError,
                        "this memory is read-only, and DLPack before 1.0 cannot say so; pass "
                        "max_version=(1, 0), or make a copy");
        return NULL;
    }
    return hf_dlpack_new(memory, tensor);
}

/* The records' destroy functions of consumed tensors. */
static inline void hf_py_dl_consumed(void *pointer)
{
    struct hf_dl_managed *managed = HF_PY_CAST(struct hf_dl_managed *, pointer);
    if (managed->deleter != NULL)
        managed->deleter(managed);
}

static inline void hf_py_dl_consumed_versioned(void *pointer)
{
    struct hf_dl_managed_versioned *managed = HF_PY_CAST(struct hf_dl_managed_versioned *, pointer);
    if (managed->deleter != NULL)
        managed->deleter(managed);
}

/*
 * Consumes a DLPack capsule of either name, anybody's: renames it to used_…, and takes its deleter
 * over.
 *   tensor  set to the tensor, which lives as long as the record has references
 *   flags   set to the producer's flags, 0 for an unversioned tensor; may be NULL
 * Result: a record with one reference, the caller's: dropping the last one calls the deleter (a
 * NULL deleter is allowed: nothing is called) on that thread, with or without the GIL. NULL with
 * TypeError (no capsule), ValueError (consumed before, or no DLPack capsule), BufferError (another
 * major version: the capsule stays as it was, and its own destructor calls the deleter), or
 * MemoryError. The shared object of the deleter stays loaded. A producer's
 * deleter may take the GIL (NumPy's does): drop the last reference where that can be had.
 */
static inline struct hf_release *hf_dlpack_consume(PyObject *capsule, struct hf_dl_tensor **tensor,
                                                   uint64_t *flags)
{
    struct hf_release *record = NULL;
    struct hf_dl_managed *plain = NULL;
    struct hf_dl_managed_versioned *versioned = NULL;
    if (capsule == NULL || !PyCapsule_CheckExact(capsule)) {
        PyErr_SetString(PyExc_TypeError,
                        "homefree: not a capsule; pass what the producer's __dlpack__() returned");
        return NULL;
    }
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        plain = HF_PY_CAST(struct hf_dl_managed *, PyCapsule_GetPointer(capsule, "dltensor"));
        if (plain->deleter != NULL)
            hf_release_pin(HF_PY_FUNCTION(plain->deleter));
        record = hf_python_record(plain, "dltensor", hf_py_dl_consumed);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        versioned = HF_PY_CAST(struct hf_dl_managed_versioned *,
                               PyCapsule_GetPointer(capsule, "dltensor_versioned"));
        if (versioned->major != HF_DL_MAJOR) {
            PyErr_Format(PyExc_BufferError,
                         "homefree: the producer speaks DLPack %u, this consumer DLPack %d; call "
                         "__dlpack__(max_version=(%d, %d))",
                         versioned->major, HF_DL_MAJOR, HF_DL_MAJOR, HF_DL_MINOR);
            return NULL;
        }
        if (versioned->deleter != NULL)
            hf_release_pin(HF_PY_FUNCTION(versioned->deleter));
        record = hf_python_record(versioned, "dltensor_versioned", hf_py_dl_consumed_versioned);
    } else if (PyCapsule_IsValid(capsule, "used_dltensor") ||
               PyCapsule_IsValid(capsule, "used_dltensor_versioned")) {
        PyErr_SetString(PyExc_ValueError, "homefree: this DLPack capsule was consumed already; ask "
                                          "the producer's __dlpack__() for another one");
        return NULL;
    } else {
        PyErr_SetString(PyExc_ValueError,
                        "homefree: not a DLPack capsule: its name is neither \"dltensor\" nor "
                        "\"dltensor_versioned\"; pass what the producer's __dlpack__() returned");
        return NULL;
    }
    if (record == NULL)
        return NULL;
    if (PyCapsule_SetName(capsule, plain != NULL ? "used_dltensor" : "used_dltensor_versioned") !=
        0) {
        hf_release_forbid(record);
        hf_release_drop(record);
        return NULL;
    }
    *tensor = plain != NULL ? &plain->tensor : &versioned->tensor;
    if (flags != NULL)
        *flags = plain != NULL ? 0 : versioned->flags;
    return record;
}

/* ---- Arrow's capsules ---- */

/* The structs of Arrow's C data interface under names of our own, laid out as it says. */
struct hf_arrow_schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct hf_arrow_schema **children, *dictionary;
    void (*release)(struct hf_arrow_schema *self);
    void *private_data;
};

struct hf_arrow_array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct hf_arrow_array **children, *dictionary;
    void (*release)(struct hf_arrow_array *self);
    void *private_data;
};

struct hf_arrow_stream {
    int (*get_schema)(struct hf_arrow_stream *self, struct hf_arrow_schema *out);
    int (*get_next)(struct hf_arrow_stream *self, struct hf_arrow_array *out);
    const char *(*get_last_error)(struct hf_arrow_stream *self);
    void (*release)(struct hf_arrow_stream *self);
    void *private_data;
};

static inline void hf_py_arrow_schema_destroy(void *pointer)
{
    struct hf_arrow_schema *schema = HF_PY_CAST(struct hf_arrow_schema *, pointer);
    if (schema->release != NULL)
        schema->release(schema);
    hf_free(schema);
}

static inline void hf_py_arrow_array_destroy(void *pointer)
{
    struct hf_arrow_array *array = HF_PY_CAST(struct hf_arrow_array *, pointer);
    if (array->release != NULL)
        array->release(array);
    hf_free(array);
}

static inline void hf_py_arrow_stream_destroy(void *pointer)
{
    struct hf_arrow_stream *stream = HF_PY_CAST(struct hf_arrow_stream *, pointer);
    if (stream->release != NULL)
        stream->release(stream);
    hf_free(stream);
}

/*
 * The capsules that __arrow_c_schema__, __arrow_c_array__ and __arrow_c_stream__ return. When one
 * goes, release is called if a consumer has not moved it away (set it to NULL), and the struct,
 * anybody's block, is freed with hf_free(). release must not call Python.
 * Result: a new reference, and then the struct is the capsule's; NULL with an exception.
 */
static inline PyObject *hf_arrow_schema_new(struct hf_arrow_schema *schema)
{
    return hf_capsule_new(schema, "arrow_schema", hf_py_arrow_schema_destroy);
}

static inline PyObject *hf_arrow_array_new(struct hf_arrow_array *array)
{
    return hf_capsule_new(array, "arrow_array", hf_py_arrow_array_destroy);
}

static inline PyObject *hf_arrow_stream_new(struct hf_arrow_stream *stream)
{
    return hf_capsule_new(stream, "arrow_array_stream", hf_py_arrow_stream_destroy);
}

/* ---- the buffer protocol ---- */

#if HF_HAVE_PYTHON_BUFFER

/* How memory is laid out, as PEP 3118 says it. */
struct hf_buffer_layout {
    const char *format; /* struct's syntax, "d", "B"; NULL: bytes */
    Py_ssize_t itemsize;
    int ndim;                  /* 0 to PyBUF_MAX_NDIM (64) */
    const Py_ssize_t *shape;   /* in elements */
    const Py_ssize_t *strides; /* in bytes; NULL: row-major */
    int readonly;
};

struct hf_py_buffer {
    PyObject ob_base;
    struct hf_release *memory;
    void *data;
    Py_ssize_t *shape, *strides; /* one block of the heap; the format follows in it */
    char *format;
    Py_ssize_t itemsize, size;
    int ndim, readonly, row_major, column_major;
};

static inline void hf_py_buffer_dealloc(PyObject *self)
{
    struct hf_py_buffer *buffer = HF_PY_CAST(struct hf_py_buffer *, self);
    PyTypeObject *type = Py_TYPE(self);
    struct hf_release *memory = buffer->memory;
    hf_free(buffer->shape);
    PyObject_Free(self);
    Py_DECREF(HF_PY_CAST(PyObject *, type));
    hf_python_drop(memory);
}

static inline PyObject *hf_py_buffer_no_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    HF_PY_UNUSED(type);
    HF_PY_UNUSED(args);
    HF_PY_UNUSED(keywords);
    PyErr_SetString(PyExc_TypeError, "homefree.Buffer objects are made in C, by hf_buffer_new()");
    return NULL;
}

static inline int hf_py_buffer_get(PyObject *self, Py_buffer *view, int flags)
{
    struct hf_py_buffer *buffer = HF_PY_CAST(struct hf_py_buffer *, self);
    const char *wrong = NULL;
    view->obj = NULL;
    if ((flags & PyBUF_WRITABLE) != 0 && buffer->readonly)
        wrong = "this memory is read-only";
    else if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !buffer->row_major)
        wrong = "this memory is not row-major; ask for its strides (PyBUF_STRIDES)";
    else if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !buffer->row_major)
        wrong = "this memory is not row-major; make a copy";
    else if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !buffer->column_major)
        wrong = "this memory is not column-major; make a copy";
    else if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !buffer->row_major &&
             !buffer->column_major)
        wrong = "this memory is not contiguous; make a copy";
    if (wrong != NULL) {
        PyErr_SetString(PyExc_BufferError, wrong);
        return -1;
    }
    view->buf = buffer->data;
    view->len = buffer->size;
    view->itemsize = buffer->itemsize;
    view->readonly = buffer->readonly;
    view->ndim = (flags & PyBUF_ND) != 0 ? buffer->ndim : 1;
    view->format = (flags & PyBUF_FORMAT) != 0 ? buffer->format : NULL;
    view->shape = (flags & PyBUF_ND) != 0 ? buffer->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? buffer->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->obj = self;
    Py_INCREF(self);
    return 0;
}

/* This interpreter's type, made the first time. A new reference. */
static inline PyObject *hf_py_buffer_type(void)
{
    static char name[] = "homefree.Buffer";
    static char doc[] = "Memory that C shares; use memoryview() or numpy.asarray().";
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, HF_PY_FUNCTION(hf_py_buffer_dealloc)},
        {Py_tp_new, HF_PY_FUNCTION(hf_py_buffer_no_new)},
        {Py_bf_getbuffer, HF_PY_FUNCTION(hf_py_buffer_get)},
        {Py_tp_doc, doc},
        {0, NULL},
    };
    static PyType_Spec spec = {name, sizeof(struct hf_py_buffer), 0, Py_TPFLAGS_DEFAULT, slots};
    PyObject *type, *key, *types = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (types == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "homefree: the interpreter is ending; share memory "
                                            "before that");
        return NULL;
    }
    /* Each compiled copy of this header has its own type: others may be laid out otherwise. */
    key = PyUnicode_FromFormat("homefree.Buffer %p", HF_PY_CAST(void *, &spec));
    if (key == NULL)
        return NULL;
    type = PyDict_GetItemWithError(types, key);
    Py_XINCREF(type);
    if (type == NULL && PyErr_Occurred() == NULL) {
        type = PyType_FromSpec(&spec);
        if (type != NULL && PyDict_SetItem(types, key, type) != 0)
            Py_CLEAR(type);
    }
    Py_DECREF(key);
    return type;
}

static inline PyObject *hf_py_buffer_wrong(const char *wrong)
{
    PyErr_SetString(PyExc_ValueError, wrong);
    return NULL;
}

/*
 * An object that exports memory through the buffer protocol: memoryview(), bytes(), NumPy, torch
 * and others read it, and write it unless readonly, without a copy. Each view keeps the object, the
 * object keeps the record.
 *   memory  the record of what the data lies in; the object takes a reference
 *   data    the element at index 0 of each dimension; not NULL
 *   layout  copied, with its format, shape and strides; the caller answers for its lying inside
 *           the memory
 * Result: a new reference; NULL with ValueError, MemoryError, or RuntimeError where the interpreter
 * is ending.
 * There where HF_HAVE_PYTHON_BUFFER is 1.
 */
static inline PyObject *hf_buffer_new(struct hf_release *memory, void *data,
                                      const struct hf_buffer_layout *layout)
{
    const char *format = layout->format != NULL ? layout->format : "B";
    size_t ndim, format_size = strlen(format) + 1;
    Py_ssize_t size = layout->itemsize, step;
    PyObject *type, *self;
    struct hf_py_buffer *buffer;
    int i, row_major = 1, column_major = 1, overflow = 0;
    if (data == NULL)
        return hf_py_buffer_wrong("homefree: the buffer's data is NULL; check the allocation "
                                  "before sharing it with Python");
    if (layout->itemsize <= 0)
        return hf_py_buffer_wrong("homefree: the buffer's itemsize is not above 0; it is the size "
                                  "of one element in bytes");
    if (layout->ndim < 0 || layout->ndim > 64)
        return hf_py_buffer_wrong("homefree: a buffer has 0 to 64 dimensions");
    if (layout->ndim > 0 && layout->shape == NULL)
        return hf_py_buffer_wrong("homefree: the buffer has no shape; give one length for each "
                                  "dimension");
    for (i = 0; i < layout->ndim; i++) {
        if (layout->shape[i] < 0)
            return hf_py_buffer_wrong("homefree: a length in the buffer's shape is negative");
        overflow |= __builtin_mul_overflow(size, layout->shape[i], &size);
    }
    if (overflow != 0 && size != 0)
        return hf_py_buffer_wrong("homefree: the buffer's shape is larger than memory can be");
    type = hf_py_buffer_type();
    if (type == NULL)
        return NULL;
    self = PyType_GenericAlloc(HF_PY_CAST(PyTypeObject *, type), 0);
    Py_DECREF(type); /* the object has a reference of its own */
    if (self == NULL)
        return NULL;
    buffer = HF_PY_CAST(struct hf_py_buffer *, self);
    ndim = HF_PY_NUMBER(size_t, layout->ndim);
    buffer->shape =
        HF_PY_CAST(Py_ssize_t *, hf_malloc(2 * ndim * sizeof(Py_ssize_t) + format_size));
    if (buffer->shape == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    buffer->strides = buffer->shape + ndim;
    buffer->format = HF_PY_CAST(char *, buffer->strides + ndim);
    memcpy(buffer->format, format, format_size);
    for (step = layout->itemsize, i = layout->ndim - 1; i >= 0; i--) {
        buffer->shape[i] = layout->shape[i];
        buffer->strides[i] = layout->strides != NULL ? layout->strides[i] : step;
        row_major = row_major && (buffer->shape[i] == 1 || buffer->strides[i] == step);
        step *= buffer->shape[i] > 0 ? buffer->shape[i] : 1;
    }
    for (step = layout->itemsize, i = 0; i < layout->ndim; i++) {
        column_major = column_major && (buffer->shape[i] == 1 || buffer->strides[i] == step);
        step *= buffer->shape[i] > 0 ? buffer->shape[i] : 1;
    }
    buffer->row_major = row_major || size == 0;
    buffer->column_major = column_major || size == 0;
    buffer->itemsize = layout->itemsize;
    buffer->size = size;
    buffer->ndim = layout->ndim;
    buffer->readonly = layout->readonly != 0;
    buffer->data = data;
    hf_release_take(memory);
    buffer->memory = memory;
    return self;
}

/*
 * A NumPy array over memory, without NumPy's headers: numpy.asarray() of an hf_buffer_new(). The
 * array's base keeps the record; NumPy never owns the data (no OWNDATA).
 * Parameters as hf_buffer_new()'s. Result: a new reference; NULL with its exceptions, or with
 * ImportError where there is no NumPy.
 */
static inline PyObject *hf_numpy_array(struct hf_release *memory, void *data,
                                       const struct hf_buffer_layout *layout)
{
    PyObject *numpy, *array, *buffer = hf_buffer_new(memory, data, layout);
    if (buffer == NULL)
        return NULL;
    numpy = PyImport_ImportModule("numpy");
    array = numpy != NULL ? PyObject_CallMethod(numpy, "asarray", "O", buffer) : NULL;
    Py_XDECREF(numpy);
    Py_DECREF(buffer);
    return array;
}

#endif /* HF_HAVE_PYTHON_BUFFER */

/* ---- Python objects that C holds ---- */

/*
 * A drop may come from any thread, at any time, and a reference of Python's may be taken down only
 * with the GIL of the object's own interpreter. Three facts decide:
 *
 * 1. Does this thread hold a GIL? From 3.12 on the current thread state is the thread's own;
 * before, it is the process's, and counts only where it is the one that this thread is known by.
 * 2. Can it be had? PyGILState_Ensure() hangs or ends a thread when the interpreter is finalizing,
 *    and nobody can ask for that in one step with it. So there is a gate: a callback of Python's
 *    atexit module, which runs before finalizing, closes it and waits until nobody is inside.
 * 3. Is it the same interpreter, and the same life of it? Each has a serial in its dictionary.
 *
 * A gate belongs to one compiled copy of this header.
 */
struct hf_py_gate_state {
    int open;       /* the main interpreter is alive and its atexit callback is registered */
    int inside;     /* threads between hf_py_gate_enter() and hf_py_gate_leave() */
    int forks;      /* the fork handler is registered */
    int64_t serial; /* the last that an interpreter got */
};

struct hf_py_held {
    PyObject *object;
    int64_t serial;
};

static inline struct hf_py_gate_state *hf_py_gate(void)
{
    static struct hf_py_gate_state gate;
    return &gate;
}

/* How often this thread is inside: a finalizer may let go of another object. */
static inline int *hf_py_gate_depth(void)
{
    static __thread int depth;
    return &depth;
}

static inline int hf_py_gate_enter(void)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    __atomic_add_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&gate->open, __ATOMIC_SEQ_CST) == 0) {
        __atomic_sub_fetch(&gate->inside, 1, __ATOMIC_SEQ_CST);
        return 0;
    }
    ++*hf_py_gate_depth();
    return 1;
}

static inline void hf_py_gate_leave(void)
{
    --*hf_py_gate_depth();
    __atomic_sub_fetch(&hf_py_gate()->inside, 1, __ATOMIC_SEQ_CST);
}

/* In a forked child, the other threads that were inside are gone. */
static inline void hf_py_gate_forked(void)
{
    __atomic_store_n(&hf_py_gate()->inside, *hf_py_gate_depth(), __ATOMIC_SEQ_CST);
}

/* The atexit callback. Waits a second at most: a finalizer that never ends must not keep the
 * process from ending. */
static inline PyObject *hf_py_gate_close(PyObject *self, PyObject *nothing)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    const struct timespec pause = {0, 100000};
    int left = 10000;
    HF_PY_UNUSED(self);
    HF_PY_UNUSED(nothing);
    __atomic_store_n(&gate->open, 0, __ATOMIC_SEQ_CST);
    Py_BEGIN_ALLOW_THREADS;
    while (__atomic_load_n(&gate->inside, __ATOMIC_SEQ_CST) > *hf_py_gate_depth() && left-- > 0)
        nanosleep(&pause, NULL);
    Py_END_ALLOW_THREADS;
    Py_INCREF(Py_None);
    return Py_None;
}

static inline int hf_py_gate_open(void)
{
    static PyMethodDef close = {"homefree_close", hf_py_gate_close, METH_NOARGS, NULL};
    struct hf_py_gate_state *gate = hf_py_gate();
    PyObject *module, *callback, *done = NULL;
    if (gate->forks == 0 && pthread_atfork(NULL, NULL, hf_py_gate_forked) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    gate->forks = 1;
    module = PyImport_ImportModule("atexit");
    callback = module != NULL ? PyCFunction_New(&close, NULL) : NULL;
    if (callback != NULL)
        done = PyObject_CallMethod(module, "register", "O", callback);
    Py_XDECREF(callback);
    Py_XDECREF(module);
    if (done == NULL)
        return -1;
    Py_DECREF(done);
    __atomic_store_n(&gate->open, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* The serial of the current interpreter; makes one where asked to. -1: none, or an exception where
 * one was asked for. */
static inline int64_t hf_py_interpreter_serial(int make)
{
    struct hf_py_gate_state *gate = hf_py_gate();
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    PyObject *key, *value, *facts = PyInterpreterState_GetDict(interpreter);
    int64_t serial = -1;
    if (facts == NULL) {
        if (make)
            PyErr_SetString(PyExc_RuntimeError, "homefree: the interpreter is ending; hold objects "
                                                "before that");
        return -1;
    }
    key = PyUnicode_FromFormat("homefree.serial %p", HF_PY_CAST(void *, gate));
    if (key == NULL)
        return -1;
    value = PyDict_GetItemWithError(facts, key);
    if (value != NULL) {
        serial = PyLong_AsLongLong(value);
    } else if (make && PyErr_Occurred() == NULL) {
        int64_t fresh = __atomic_add_fetch(&gate->serial, 1, __ATOMIC_SEQ_CST);
        value = PyLong_FromLongLong(fresh);
        /* Only the main interpreter's GIL can be had by a thread that Python does not know. */
        if (value != NULL &&
            (PyInterpreterState_GetID(interpreter) != 0 || hf_py_gate_open() == 0) &&
            PyDict_SetItem(facts, key, value) == 0)
            serial = fresh;
        Py_XDECREF(value);
    }
    Py_DECREF(key);
    return serial;
}

/* Functions of CPython that the limited API does not declare. */
#ifdef Py_LIMITED_API
static inline void *hf_py_symbol(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}
#endif

static inline PyThreadState *hf_py_current(void)
{
#ifndef Py_LIMITED_API
#    if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked();
#    else
    return _PyThreadState_UncheckedGet();
#    endif
#else
    PyThreadState *(*get)(void);
    void *symbol = hf_py_symbol("PyThreadState_GetUnchecked");
    if (symbol == NULL)
        symbol = hf_py_symbol("_PyThreadState_UncheckedGet");
    memcpy(&get, &symbol, sizeof get);
    return symbol != NULL ? get() : NULL;
#endif
}

/* Whether PyGILState_Check() says no, which it does only where it can tell. */
static inline int hf_py_check_says_no(void)
{
#ifndef Py_LIMITED_API
    return PyGILState_Check() == 0;
#else
    int (*check)(void);
    void *symbol = hf_py_symbol("PyGILState_Check");
    memcpy(&check, &symbol, sizeof check);
    return symbol != NULL && check() == 0;
#endif
}

static inline int hf_py_per_thread(void)
{
#ifndef Py_LIMITED_API
    return PY_VERSION_HEX >= 0x030c0000;
#else
    return strtol(Py_GetVersion() + 2, NULL, 10) >= 12; /* "3.12.1 …" */
#endif
}

enum hf_py_gil { HF_PY_GIL_HELD, HF_PY_GIL_FREE, HF_PY_GIL_UNKNOWN };

/* Whether this thread holds a GIL. May be called by any thread at any time. */
static inline enum hf_py_gil hf_py_gil(void)
{
    PyThreadState *current, *known;
    if (*hf_py_held_depth() > 0)
        return HF_PY_GIL_HELD;
    current = hf_py_current();
    if (current == NULL)
        return HF_PY_GIL_FREE;
    if (hf_py_per_thread())
        return HF_PY_GIL_HELD;
    known = PyGILState_GetThisThreadState();
    if (known == current)
        return HF_PY_GIL_HELD;
    /* Where there are more interpreters, the thread may be in one that it is not known by. */
    return known == NULL || hf_py_check_says_no() ? HF_PY_GIL_FREE : HF_PY_GIL_UNKNOWN;
}

/* With a GIL: takes the reference down if it is the right interpreter's. 0 or -1. */
static inline int hf_py_held_down(const struct hf_py_held *held)
{
    struct hf_py_error kept;
    int same, depth = *hf_py_held_depth();
    hf_py_error_keep(&kept);
    *hf_py_held_depth() = 0; /* a finalizer may give the GIL up */
    same = hf_py_interpreter_serial(0) == held->serial;
    PyErr_Clear();
    if (same)
        Py_DECREF(held->object);
    *hf_py_held_depth() = depth;
    hf_py_error_put_back(&kept);
    return same ? 0 : -1;
}

static inline int hf_py_held_attempt(void *pointer)
{
    struct hf_py_held *held = HF_PY_CAST(struct hf_py_held *, pointer);
    enum hf_py_gil gil = hf_py_gil();
    int result = -1;
    if (gil == HF_PY_GIL_HELD) {
        result = hf_py_held_down(held);
    } else if (gil == HF_PY_GIL_FREE && hf_py_gate_enter()) {
        PyGILState_STATE state = PyGILState_Ensure();
        result = hf_py_held_down(held);
        PyGILState_Release(state);
        hf_py_gate_leave();
    }
    hf_free(held);
    return result;
}

/*
 * A record that holds a Python object, for C structures that outlive what Python knows of them: it
 * takes a reference of the object, and lets go of it when the record's last reference is dropped,
 * on any thread, with the GIL or without, when that is known to be safe:
 *   - the dropping thread holds the GIL of the object's interpreter, also while that is finalizing;
 *   - or it holds none, the object belongs to the main interpreter, and that is not ending yet: the
 *     thread then waits for the GIL (so a thread must not drop while it holds a lock that the GIL's
 *     holder may wait for).
 * Otherwise the object is leaked and counted (hf_stats, releases_leaked): the interpreter is ending
 * or gone, has ended and started again, is another one, or (before 3.12, in a process with more
 * interpreters, and not through hf_python_drop()) cannot be told.
 *   object  any object; not NULL
 * Result: a record with one reference; hf_release_pointer() of it is not the object, which
 * hf_object_held() gives. NULL with ValueError, MemoryError, or RuntimeError where the interpreter
 * is ending.
 * Fork: the child may drop too. When the interpreter ends, it waits up to a second for threads that
 * are letting go of objects.
 */
static inline struct hf_release *hf_object_hold(PyObject *object)
{
    struct hf_release *record = NULL;
    struct hf_py_held *held;
    int64_t serial;
    if (object == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_ValueError, "homefree: the object is NULL; pass an object");
        return NULL;
    }
    serial = hf_py_interpreter_serial(1);
    if (serial < 0)
        return NULL;
    held = HF_PY_CAST(struct hf_py_held *, hf_malloc(sizeof *held));
    if (held == NULL || hf_release_new_attempt(&record, held, hf_py_held_attempt, NULL) != 0) {
        hf_free(held);
        PyErr_NoMemory();
        return NULL;
    }
    Py_INCREF(object);
    held->object = object;
    held->serial = serial;
    return record;
}

/* The object of an hf_object_hold(); borrowed, valid as long as the record has references. Needs no
 * GIL. */
static inline PyObject *hf_object_held(const struct hf_release *record)
{
    return HF_PY_CAST(struct hf_py_held *, hf_release_pointer(record))->object;
}

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
