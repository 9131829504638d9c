/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/dlpack.h - memory as DLPack tensors: exporting and consuming them.
 * What an object's __dlpack__() does is in homefree/python/dlpack_request.h.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_PYTHON_DLPACK_H
#define HOMEFREE_PYTHON_DLPACK_H

#include <homefree/python/record.h>
#include <homefree/space.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * DLPack's structs, with the layout of dlpack.h (DLPack 0.2 to 1.x on 64-bit machines) under names
 * of our own, so that both headers can be included. struct hf_dl_managed is DLManagedTensor, struct
 * hf_dl_managed_versioned is DLManagedTensorVersioned.
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
    void *data; /* the device's address of element 0, less byte_offset */
    struct hf_dl_device device;
    int32_t ndim;
    struct hf_dl_type dtype;
    int64_t *shape;   /* ndim lengths, in elements */
    int64_t *strides; /* ndim steps, in elements; NULL for row-major */
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

/* Checks the tensor that a maker was given. Result: 0, or -1 with an exception. */
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

/* Returns the bytes needed for the shape and the strides. */
static inline size_t hf_py_dl_capacity(const struct hf_dl_tensor *tensor)
{
    return 2 * sizeof(int64_t) * HF_PY_NUMBER(size_t, tensor->ndim);
}

/* Copies a tensor, with its shape and strides to `lengths`. Result: 0, or -1 with an exception. */
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

/* Drops the tensor's reference and frees the tensor. Does not call Python. A second call finds no
 * deleter of ours, unless the memory was allocated again in between. */
static inline void hf_py_dl_drop(void *managed, void **context)
{
    void *record = *context;
    if (!hf_release_is(record))
        return;
    *context = NULL;
    hf_release_drop(HF_PY_CAST(struct hf_release *, record));
    hf_free(managed);
}

static inline void hf_py_dl_delete(struct hf_dl_managed *self)
{
    hf_py_dl_drop(self, &self->context);
}

static inline void hf_py_dl_delete_versioned(struct hf_dl_managed_versioned *self)
{
    hf_py_dl_drop(self, &self->context);
}

/* A capsule that was not consumed still has its first name. */
static inline void hf_py_dl_capsule_destroy(PyObject *capsule)
{
    struct hf_py_error kept;
    int begun;
    hf_py_error_keep(&kept);
    begun = hf_py_hold_begin();
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
    hf_py_hold_end(begun);
    hf_py_error_put_back(&kept);
}

/* Allocates a managed tensor, `size` bytes with room for the shape and strides behind it. Returns
 * NULL with an exception set. */
static inline void *hf_py_dl_allocate(const struct hf_dl_tensor *tensor, size_t size)
{
    void *managed;
    if (hf_py_dl_check(tensor) != 0)
        return NULL;
    managed = hf_malloc(size + hf_py_dl_capacity(tensor));
    if (managed == NULL)
        PyErr_NoMemory();
    return managed;
}

/* Copies the tensor into a managed one, makes the capsule and takes the reference to the memory.
 * Frees the managed tensor on failure. */
static inline PyObject *hf_py_dl_capsule(void *managed, const char *name, struct hf_dl_tensor *copy,
                                         const struct hf_dl_tensor *tensor, int64_t *numbers,
                                         struct hf_release *memory, void *deleter)
{
    PyObject *capsule = hf_py_dl_copy(copy, tensor, numbers) == 0
                            ? PyCapsule_New(managed, name, hf_py_dl_capsule_destroy)
                            : NULL;
    if (capsule == NULL) {
        hf_free(managed);
        return NULL;
    }
    hf_release_pin(deleter);
    hf_release_take(memory);
    return capsule;
}

/*
 * Makes a DLPack capsule.
 *
 * hf_dlpack_new() makes one named "dltensor", for consumers that ask for no version,
 * hf_dlpack_new_versioned() one of DLPack 1.0, named "dltensor_versioned". The tensor's deleter may
 * run on any thread, without the GIL, and after Py_Finalize().
 *
 * Parameters:
 *   memory  in/out: the deleter of the memory; the tensor takes a reference
 *   tensor  in: what to share; copied, with its shape and strides
 *   flags   in: HF_DL_READ_ONLY if consumers must not write; HF_DL_COPIED if this is a copy of the
 *           producer's data
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   ValueError   the tensor is invalid
 *   MemoryError  there is no memory
 * Frees: the consumer, or the capsule if it is not consumed, drops the tensor's reference; the
 *   caller keeps its own.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: DLPack 1.0, the specifications of C and of Python.
 * Since: 1.0
 */
static inline PyObject *hf_dlpack_new(struct hf_release *memory, const struct hf_dl_tensor *tensor)
{
    struct hf_dl_managed *managed =
        HF_PY_CAST(struct hf_dl_managed *, hf_py_dl_allocate(tensor, sizeof *managed));
    if (managed == NULL)
        return NULL;
    managed->context = memory;
    managed->deleter = hf_py_dl_delete;
    return hf_py_dl_capsule(managed, "dltensor", &managed->tensor, tensor,
                            HF_PY_CAST(int64_t *, managed + 1), memory,
                            HF_PY_FUNCTION(hf_py_dl_delete));
}

static inline PyObject *hf_dlpack_new_versioned(struct hf_release *memory,
                                                const struct hf_dl_tensor *tensor, uint64_t flags)
{
    struct hf_dl_managed_versioned *managed =
        HF_PY_CAST(struct hf_dl_managed_versioned *, hf_py_dl_allocate(tensor, sizeof *managed));
    if (managed == NULL)
        return NULL;
    managed->major = HF_DL_MAJOR;
    managed->minor = HF_DL_MINOR;
    managed->flags = flags;
    managed->context = memory;
    managed->deleter = hf_py_dl_delete_versioned;
    return hf_py_dl_capsule(managed, "dltensor_versioned", &managed->tensor, tensor,
                            HF_PY_CAST(int64_t *, managed + 1), memory,
                            HF_PY_FUNCTION(hf_py_dl_delete_versioned));
}

/*
 * Makes the capsule that __dlpack__(max_version=…) returns: the newest one the consumer
 * understands.
 *
 * Parameters:
 *   memory       in/out: the deleter of the memory; the tensor takes a reference
 *   tensor       in: what to share; copied, with its shape and strides
 *   flags        in: as for hf_dlpack_new_versioned()
 *   max_version  in: as the consumer passed it: None, NULL or a tuple (major, minor)
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   TypeError    max_version is neither None nor such a tuple
 *   BufferError  the memory is read-only, and the consumer predates DLPack 1.0, which can say so
 *   ValueError   the tensor is invalid
 *   MemoryError  there is no memory
 * Frees: the consumer, or the capsule if it is not consumed, drops the tensor's reference; the
 *   caller keeps its own.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: DLPack 1.0, the specification of Python.
 * Since: 1.0
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

/* Whether work on the device is ordered by CUDA's streams. */
static inline int hf_py_dl_has_streams(int32_t device_type)
{
    return device_type == HF_DL_CUDA || device_type == HF_DL_CUDA_MANAGED;
}

/* What frees a consumed tensor. */
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
 * Consumes a DLPack capsule of any producer: renames it to used_…, and takes over its deleter.
 *
 * The last drop of a reference calls the producer's deleter, on that thread, with or without the
 * GIL. Some producers' deleters take the GIL, as NumPy's does; drop the last reference where the
 * GIL can be had. The shared object that contains the deleter stays loaded. A NULL deleter is
 * allowed.
 *
 * Parameters:
 *   capsule  in/out: named "dltensor" or "dltensor_versioned"; unchanged on error
 *   tensor   out: the tensor, which is valid as long as the result has references
 *   flags    out: the producer's flags, 0 for an unversioned tensor; may be NULL
 * Result: a deleter with one reference; NULL with an exception set.
 * Errors:
 *   TypeError    capsule is NULL, or is not a capsule
 *   ValueError   the capsule is not DLPack's, or was consumed before
 *   BufferError  the tensor has another major version of DLPack
 *   MemoryError  there is no memory
 * Frees: the caller drops the reference with hf_release_drop() or hf_python_drop().
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: DLPack 1.0, the specification of Python.
 * Since: 1.0
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

/* Calls object.__dlpack__(). Returns a new reference, or NULL with an exception. */
static inline PyObject *hf_py_dl_call(PyObject *object, PyObject *keywords)
{
    PyObject *capsule = NULL, *empty = PyTuple_New(0);
    PyObject *method = empty != NULL ? PyObject_GetAttrString(object, "__dlpack__") : NULL;
    if (method != NULL)
        capsule = PyObject_Call(method, empty, keywords);
    Py_XDECREF(method);
    Py_XDECREF(empty);
    return capsule;
}

/*
 * Consumes the tensor of any object that has __dlpack__() and __dlpack_device__().
 *
 * For a CUDA device the producer is asked to make `stream` wait for its own work. Producers that
 * predate DLPack 1.0 are asked again without a version. Before the last drop, make the producer's
 * stream wait for `stream` (hf_space_order()), or `stream` be done, unless the producer is known to
 * keep its memory until then.
 *
 * Parameters:
 *   object  in: the producer
 *   stream  in: the stream that will use the memory; NULL for the legacy default stream,
 *           HF_STREAM_DONE if the producer need not order anything. Ignored for memory of the host
 *   tensor  out: the tensor, which is valid as long as the result has references
 *   flags   out: the producer's flags, 0 for an unversioned tensor; may be NULL
 * Result: a deleter with one reference; NULL with an exception set.
 * Errors:
 *   TypeError   object has no such methods
 *   ValueError  stream is HF_STREAM_ANY
 *   any         what the producer raised; as for hf_dlpack_consume()
 * Frees: the caller drops the reference with hf_release_drop() or hf_python_drop().
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: the Python array API standard 2023.12, from_dlpack and __dlpack__.
 * Since: 1.0
 */
static inline struct hf_release *hf_dlpack_import(PyObject *object, void *stream,
                                                  struct hf_dl_tensor **tensor, uint64_t *flags)
{
    int type, id;
    struct hf_release *record = NULL;
    PyObject *capsule = NULL, *keywords = NULL;
    PyObject *device =
        object != NULL ? PyObject_CallMethod(object, "__dlpack_device__", NULL) : NULL;
    if (device == NULL) {
        if (object == NULL || PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_SetString(PyExc_TypeError, "homefree: this object does not speak DLPack: it has "
                                             "no __dlpack_device__()");
        return NULL;
    }
    if (!PyTuple_Check(device) || PyTuple_Size(device) != 2) {
        PyErr_SetString(PyExc_TypeError, "homefree: __dlpack_device__() did not return a tuple "
                                         "(type, id)");
    } else if (PyArg_ParseTuple(device, "ii", &type, &id)) {
        if (!hf_py_dl_has_streams(type)) {
            keywords = Py_BuildValue("{s(ii)}", "max_version", HF_DL_MAJOR, HF_DL_MINOR);
        } else if (stream == HF_STREAM_ANY) {
            PyErr_SetString(PyExc_ValueError,
                            "homefree: HF_STREAM_ANY is no stream that a producer "
                            "could order; name one, or HF_STREAM_DONE");
        } else {
            Py_ssize_t number = stream != NULL ? HF_PY_CAST(Py_ssize_t, stream) : 1;
            keywords = Py_BuildValue("{s(ii)sn}", "max_version", HF_DL_MAJOR, HF_DL_MINOR, "stream",
                                     number);
        }
    }
    Py_DECREF(device);
    if (keywords != NULL)
        capsule = hf_py_dl_call(object, keywords);
    if (keywords != NULL && capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        if (PyDict_DelItemString(keywords, "max_version") == 0)
            capsule = hf_py_dl_call(object, keywords);
    }
    Py_XDECREF(keywords);
    if (capsule != NULL)
        record = hf_dlpack_consume(capsule, tensor, flags);
    Py_XDECREF(capsule);
    return record;
}

#ifdef __cplusplus
}
#endif
#endif
