/*
 * homefree/python/dlpack.h - memory as DLPack tensors: exporting and consuming them.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_HOMEFREE_PYTHON_DLPACK_H
#define HOMEFREE_HOMEFREE_PYTHON_DLPACK_H

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
static inline size_t hf_py_dl_room(const struct hf_dl_tensor *tensor)
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
    managed = hf_malloc(size + hf_py_dl_room(tensor));
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

/* What a consumer passes to __dlpack__(). Borrowed; NULL is as None. */
struct hf_dlpack_request {
    PyObject *stream;      /* the stream that the consumer will use: see hf_dlpack_stream() */
    PyObject *max_version; /* (major, minor): the newest DLPack that it understands */
    PyObject *dl_device;   /* (type, id): where it wants the memory */
    PyObject *copy;        /* True: it wants a copy; False: it wants none */
};

/*
 * Reads the arguments of a method __dlpack__(), which are all keywords.
 *
 * Parameters:
 *   args    in: the method's tuple
 *   kwargs  in: the method's dict; may be NULL
 *   out     out: the arguments, borrowed
 * Result: 0, or -1 with an exception set.
 * Errors:
 *   TypeError  there is a positional argument, or an unknown one
 * Frees: nothing.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: the Python array API standard 2023.12, __dlpack__.
 * Since: 1.0
 */
static inline int hf_dlpack_read_request(PyObject *args, PyObject *kwargs,
                                         struct hf_dlpack_request *out)
{
    static char stream[] = "stream", max_version[] = "max_version", dl_device[] = "dl_device",
                copy[] = "copy";
    static char *names[] = {stream, max_version, dl_device, copy, NULL};
    memset(out, 0, sizeof *out);
    return PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &out->stream,
                                       &out->max_version, &out->dl_device, &out->copy)
               ? 0
               : -1;
}

/* Whether work on the device is ordered by CUDA's streams. */
static inline int hf_py_dl_has_streams(int32_t device_type)
{
    return device_type == HF_DL_CUDA || device_type == HF_DL_CUDA_MANAGED;
}

/*
 * Reads the argument `stream` of __dlpack__().
 *
 * For CUDA's devices None means the legacy default stream, 1 and 2 are the legacy and the
 * per-thread default stream (cudaStreamLegacy, cudaStreamPerThread), -1 asks the producer not to
 * order anything, and any other number is a cudaStream_t. 0 would be ambiguous. Memory of the host,
 * page-locked or not, has no stream: only None and -1 are allowed.
 *
 * Parameters:
 *   stream       in: as the consumer passed it; NULL is as None
 *   device_type  in: an enum hf_dl_device_type: where the memory is
 *   out          out: the consumer's stream; HF_STREAM_DONE if nothing is to be ordered
 * Result: 0, or -1 with an exception set.
 * Errors:
 *   TypeError   stream is neither None nor an integer
 *   ValueError  the stream is not allowed
 * Frees: nothing.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: the Python array API standard 2023.12, __dlpack__.
 * Since: 1.0
 */
static inline int hf_dlpack_stream(PyObject *stream, int32_t device_type, void **out)
{
    intptr_t number = hf_py_dl_has_streams(device_type) ? 1 : -1;
    if (stream != NULL && stream != Py_None) {
        if (!PyLong_Check(stream)) {
            PyErr_SetString(PyExc_TypeError,
                            "stream is None or an integer: a cudaStream_t, 1, 2 or "
                            "-1");
            return -1;
        }
        number = PyLong_AsSsize_t(stream);
        if (number == -1 && PyErr_Occurred() != NULL)
            return -1;
        if (number != -1 && !hf_py_dl_has_streams(device_type)) {
            PyErr_SetString(PyExc_ValueError, "this memory is the host's, and has no stream; pass "
                                              "stream=None");
            return -1;
        }
        if (number == 0 || number < -1) {
            PyErr_SetString(PyExc_ValueError,
                            number == 0 ? "stream=0 could be either default stream; pass 1 for the "
                                          "legacy one, 2 for the per-thread one"
                                        : "stream is negative; pass a cudaStream_t, 1, 2 or -1");
            return -1;
        }
    }
    *out = HF_PY_CAST(void *, number);
    return 0;
}

/* Finds out where the memory goes. Result: 0, or -1 with an exception. */
static inline int hf_py_dl_place(struct hf_dl_device *device,
                                 const struct hf_dlpack_request *request)
{
    int type, id;
    int copy =
        request->copy != NULL && request->copy != Py_None ? PyObject_IsTrue(request->copy) : 0;
    if (copy != 0) {
        if (copy > 0)
            PyErr_SetString(PyExc_BufferError, "homefree shares memory and copies none; pass "
                                               "copy=None, and copy what you get");
        return -1;
    }
    if (request->dl_device == NULL || request->dl_device == Py_None)
        return 0;
    if (!PyTuple_Check(request->dl_device)) {
        PyErr_SetString(PyExc_TypeError, "dl_device is a tuple (type, id) of integers, or None");
        return -1;
    }
    if (!PyArg_ParseTuple(request->dl_device, "ii;dl_device is a tuple (type, id) of integers",
                          &type, &id))
        return -1;
    if (type == HF_DL_CPU && device->type == HF_DL_CUDA_HOST) {
        device->type = HF_DL_CPU; /* which can read page-locked memory */
        device->id = 0;
        return 0;
    }
    if (type == device->type && id == device->id)
        return 0;
    PyErr_Format(
        PyExc_BufferError,
        "this memory is on the device (%d, %d), and homefree copies none to (%d, %d); pass "
        "dl_device=None, and copy what you get",
        HF_PY_NUMBER(int, device->type), HF_PY_NUMBER(int, device->id), type, id);
    return -1;
}

/* Makes the consumer's stream wait for the producer's, and memory of a space stay until both are
 * done. Result: 0, or -1 with an exception. */
static inline int hf_py_dl_order(struct hf_release *memory, int device, void *producer,
                                 void *consumer)
{
    void *legacy = HF_PY_CAST(void *, HF_PY_NUMBER(intptr_t, 1));
    int error = 0;
    if (consumer == HF_STREAM_DONE) {
        /* Which stream it uses is not known. */
        hf_release_set_stream(memory, HF_STREAM_ANY);
        return 0;
    }
    if (producer == NULL)
        producer = legacy;
    if (consumer != producer) {
        if (producer != HF_STREAM_DONE)
            error = hf_space_order(device, producer, consumer);
        if (error == 0 && hf_release_device(memory) >= 0)
            error = hf_space_use(hf_release_pointer(memory), consumer);
    }
    if (error != 0)
        PyErr_Format(PyExc_BufferError,
                     "the consumer's stream cannot be made to wait for the producer's: %s; "
                     "synchronize the producer's stream and pass stream=-1",
                     strerror(-error));
    return error != 0 ? -1 : 0;
}

/*
 * Makes the capsule that a method __dlpack__() returns, for memory of the host or of a CUDA device.
 *
 * If the consumer uses another stream than the producer, its stream is made to wait for what is in
 * the producer's. Memory of hf_release_new_space() is then kept after the last drop until what the
 * consumer's stream has by then is done, or all streams if the consumer named none (-1).
 * Page-locked memory (HF_DL_CUDA_HOST) is given to consumers that ask for the CPU's.
 *
 * Parameters:
 *   memory    in/out: the deleter of the memory; the tensor takes a reference
 *   tensor    in: what to share; copied, with its shape and strides
 *   flags     in: as for hf_dlpack_new_versioned()
 *   producer  in: the stream that wrote the memory last; NULL for the legacy default stream,
 *             HF_STREAM_DONE if it is done; HF_STREAM_ANY waits for the device. Ignored for memory
 *             of the host
 *   request   in: what the consumer passed
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   TypeError    an argument of the consumer's has another type
 *   ValueError   the tensor or the stream is invalid
 *   BufferError  the consumer wants a copy or another device; it cannot be told that the memory is
 *                read-only; or its stream cannot be made to wait
 *   MemoryError  there is no memory
 * Frees: as for hf_dlpack_export().
 * Threads: attached.
 * Fork: safe; BufferError for a device's memory in the child.
 * Signals: unsafe.
 * Source: the Python array API standard 2023.12, __dlpack__.
 * Since: 1.0
 */
static inline PyObject *hf_dlpack_answer(struct hf_release *memory,
                                         const struct hf_dl_tensor *tensor, uint64_t flags,
                                         void *producer, const struct hf_dlpack_request *request)
{
    struct hf_dl_tensor placed = *tensor;
    void *consumer;
    if (hf_py_dl_place(&placed.device, request) != 0 ||
        hf_dlpack_stream(request->stream, tensor->device.type, &consumer) != 0 ||
        (hf_py_dl_has_streams(tensor->device.type) &&
         hf_py_dl_order(memory, tensor->device.id, producer, consumer) != 0))
        return NULL;
    return hf_dlpack_export(memory, &placed, flags, request->max_version);
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
