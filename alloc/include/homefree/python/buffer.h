/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/buffer.h - memory through the buffer protocol, and as NumPy arrays.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_PYTHON_BUFFER_H
#define HOMEFREE_PYTHON_BUFFER_H

#include <homefree/python/record.h>

#include <string.h>

/* 1 if hf_buffer_new() and hf_numpy_array() exist: the buffer protocol belongs to the full API, and
 * to the limited one since 3.11 (Py_LIMITED_API 0x030b0000, with headers of 3.11 or later). */
#if !defined(Py_LIMITED_API) || (Py_LIMITED_API + 0 >= 0x030b0000 && PY_VERSION_HEX >= 0x030b0000)
#    define HF_HAVE_PYTHON_BUFFER 1
#else
#    define HF_HAVE_PYTHON_BUFFER 0
#endif

#if HF_HAVE_PYTHON_BUFFER

#    ifdef __cplusplus
extern "C" {
#    endif

/* The layout of memory, as in PEP 3118. */
struct hf_buffer_layout {
    const char *format;        /* in struct's syntax: "d", "B"; NULL for bytes */
    Py_ssize_t itemsize;       /* bytes of one element */
    int ndim;                  /* 0 to PyBUF_MAX_NDIM (64) */
    const Py_ssize_t *shape;   /* ndim lengths, in elements */
    const Py_ssize_t *strides; /* ndim steps, in bytes; NULL for row-major */
    int readonly;              /* non-zero forbids writing */
};

/* 1 if what a PyObject contains is not for the module to know, as in the stable ABI of CPython 3.15
 * without a GIL. The object's own data lie behind it then, from 3.12 on (PEP 697). */
#    if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 >= 0x030c0000
#        define HF_PY_OPAQUE 1
#    else
#        define HF_PY_OPAQUE 0
#    endif

struct hf_py_buffer {
#    if !HF_PY_OPAQUE
    PyObject ob_base;
#    endif
    struct hf_release *memory;
    void *data;
    Py_ssize_t *shape, *strides; /* one block of the heap, which also holds the format */
    char *format;
    Py_ssize_t itemsize, size;
    int ndim, readonly, row_major, column_major;
};

static inline struct hf_py_buffer *hf_py_buffer_of(PyObject *self)
{
#    if HF_PY_OPAQUE
    /* The type has no subclasses. */
    return HF_PY_CAST(struct hf_py_buffer *, PyObject_GetTypeData(self, Py_TYPE(self)));
#    else
    return HF_PY_CAST(struct hf_py_buffer *, self);
#    endif
}

static inline void hf_py_buffer_dealloc(PyObject *self)
{
    struct hf_py_buffer *buffer = hf_py_buffer_of(self);
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
    struct hf_py_buffer *buffer = hf_py_buffer_of(self);
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

/* A new reference to this interpreter's type, which the first call makes. */
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
    /* A negative size is that of the data behind the object. */
    static PyType_Spec spec = {name,
                               HF_PY_OPAQUE ? -HF_PY_NUMBER(int, sizeof(struct hf_py_buffer))
                                            : HF_PY_NUMBER(int, sizeof(struct hf_py_buffer)),
                               0, Py_TPFLAGS_DEFAULT, slots};
    PyObject *type, *key, *types = PyInterpreterState_GetDict(PyInterpreterState_Get());
    if (types == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "homefree: the interpreter is ending; share memory "
                                            "before that");
        return NULL;
    }
    /* Each compiled copy of this header has its own type: layouts may differ. */
    key = PyUnicode_FromFormat("homefree.Buffer %p", HF_PY_CAST(void *, &spec));
    if (key == NULL)
        return NULL;
    type = PyDict_GetItemWithError(types, key);
    Py_XINCREF(type);
    if (type == NULL && PyErr_Occurred() == NULL) {
        PyObject *made = PyType_FromSpec(&spec);
        type = made != NULL ? hf_py_first(types, key, made) : NULL;
        Py_XDECREF(made);
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
 * Makes an object that exports memory through the buffer protocol.
 *
 * memoryview(), bytes(), NumPy, torch and others read the memory without a copy, and write it
 * unless it is read-only. Each view keeps the object alive, and the object keeps the deleter.
 * Exists if HF_HAVE_PYTHON_BUFFER is 1.
 *
 * Parameters:
 *   memory  in/out: the deleter of the memory; the object takes a reference
 *   data    in: the element at index 0 of each dimension; not NULL
 *   layout  in: copied, with its format, shape and strides; the caller ensures that it describes
 *           only elements inside the memory
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   ValueError    data is NULL, or the layout is invalid
 *   MemoryError   there is no memory
 *   RuntimeError  the interpreter is ending
 * Frees: the object drops its reference when it is destroyed; the caller keeps its own.
 * Threads: attached.
 * Fork: safe.
 * Signals: unsafe.
 * Source: PEP 3118; CPython's documentation of the buffer protocol.
 * Since: 1.0
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
    buffer = hf_py_buffer_of(self);
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
 * Makes a NumPy array over memory, without NumPy's headers.
 *
 * The array is numpy.asarray() of an hf_buffer_new(). Its base keeps the deleter; NumPy never owns
 * the data (no OWNDATA). Exists if HF_HAVE_PYTHON_BUFFER is 1.
 *
 * Parameters:
 *   memory  in/out: the deleter of the memory; the array takes a reference
 *   data    in: the element at index 0 of each dimension; not NULL
 *   layout  in: copied, with its format, shape and strides; the caller ensures that it describes
 *           only elements inside the memory
 * Result: a new reference; NULL with an exception set.
 * Errors:
 *   ImportError   there is no NumPy
 *   ValueError    data is NULL, or the layout is invalid
 *   MemoryError   there is no memory
 *   RuntimeError  the interpreter is ending
 * Frees: the array drops its reference when it is destroyed; the caller keeps its own.
 * Threads: attached; may import numpy.
 * Fork: safe.
 * Signals: unsafe.
 * Since: 1.0
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

#    ifdef __cplusplus
}
#    endif
#endif /* HF_HAVE_PYTHON_BUFFER */

#endif
