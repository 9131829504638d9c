/*
 * homefree/python/dlpack.h - memory as DLPack tensors: handing it out, and taking it over.
 *
 * The rules are python.h's. Facts: DLPack's specification of C and Python (dlpack.h 1.0).
 */
#ifndef HOMEFREE_PYTHON_DLPACK_H
#define HOMEFREE_PYTHON_DLPACK_H

#ifndef HOMEFREE_PYTHON_H
#    error "include homefree/python.h, which includes this"
#endif

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

#endif
