/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for homefree.cuda: spaces, records of their blocks, and DLPack. Owns
 * nothing: a block belongs to its record, which a capsule keeps. Functions are called with the GIL
 * held and release it where the driver may be called.
 *
 * Addresses and streams are integers; -1 and -2 are HF_STREAM_DONE and HF_STREAM_ANY. Errors are
 * OSError with the errno; homefree/cuda/_space.py says what to do about them.
 */
#include "python/native/module_state.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/python/capsule.h>
#include <homefree/python/dlpack_request.h>
#include <homefree/python/record.h>
#include <string.h>

PyDoc_STRVAR(new_doc, "space_new(kind, device, size, stream, last)\n--\n\n"
                      "hf_space_alloc() and a record that frees on the stream `last`: (capsule, "
                      "address).");
PyDoc_STRVAR(alloc_doc, "space_alloc(kind, device, size, stream)\n--\n\nhf_space_alloc().");
PyDoc_STRVAR(free_doc, "space_free(address, stream)\n--\n\nhf_space_free().");
PyDoc_STRVAR(use_doc, "space_use(address, stream)\n--\n\nhf_space_use().");
PyDoc_STRVAR(order_doc, "space_order(device, before, after)\n--\n\nhf_space_order().");
PyDoc_STRVAR(of_doc, "space_of(address)\n--\n\n"
                     "hf_space_of(): (kind, device, stream, block, size), or None.");
PyDoc_STRVAR(stats_doc, "space_stats(kind, device)\n--\n\nhf_space_stats(): a dict.");
PyDoc_STRVAR(limit_doc, "space_limit(kind, device, bytes)\n--\n\nhf_space_limit().");
PyDoc_STRVAR(trim_doc, "space_trim(kind, device, keep)\n--\n\nhf_space_trim(): bytes given back.");
PyDoc_STRVAR(reason_doc, "space_reason(kind, device)\n--\n\nhf_space_reason().");
PyDoc_STRVAR(run_doc, "record_run(capsule, stream)\n--\n\n"
                      "Frees a block now, on this stream or, for None, on its own: False if that "
                      "had happened before.");
PyDoc_STRVAR(stream_doc, "record_stream(capsule)\n--\n\nhf_release_stream().");
PyDoc_STRVAR(number_doc, "record_number(capsule)\n--\n\nThe record's address, for record_done().");
PyDoc_STRVAR(is_doc, "record_is(number, block)\n--\n\n"
                     "Whether a record of the block is at this address.");
PyDoc_STRVAR(done_doc,
             "record_done(number, block)\n--\n\n"
             "Makes the record at this address, if it is one of the block, free it on no stream "
             "but those of space_use().");
PyDoc_STRVAR(answer_doc,
             "dlpack_answer(capsule, address, device, type, shape, flags, producer, keywords)\n"
             "--\n\nWhat __dlpack__(**keywords) returns.");
PyDoc_STRVAR(import_doc, "dlpack_import(object, stream)\n--\n\n"
                         "hf_dlpack_import(): (capsule, address, device, type, shape, strides, "
                         "flags).");

static void *pointer(Py_ssize_t number)
{
    return (void *)number;
}

/* ---- spaces ---- */

static int allocate(void **out, int kind, int device, Py_ssize_t size, Py_ssize_t stream)
{
    int error;
    if (size < 0)
        return -EINVAL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_alloc(out, (enum hf_space_kind)kind, device, (size_t)size, 0, pointer(stream));
    Py_END_ALLOW_THREADS
    return error;
}

static PyObject *space_new(PyObject *module, PyObject *arguments)
{
    (void)module;
    int kind, device;
    Py_ssize_t size, stream, last;
    void *block;
    if (!PyArg_ParseTuple(arguments, "iinnn:space_new", &kind, &device, &size, &stream, &last))
        return NULL;
    int error = allocate(&block, kind, device, size, stream);
    if (error != 0)
        return homefree_failed(error, NULL);
    struct hf_release *record = hf_python_space_record(block, "homefree.block", pointer(last));
    PyObject *capsule = record != NULL ? hf_capsule_of(record) : NULL;
    if (record == NULL)
        hf_space_free(block, pointer(stream));
    hf_release_drop(record);
    return capsule != NULL ? Py_BuildValue("Nn", capsule, (Py_ssize_t)block) : NULL;
}

static PyObject *space_alloc(PyObject *module, PyObject *arguments)
{
    (void)module;
    int kind, device;
    Py_ssize_t size, stream;
    void *block;
    if (!PyArg_ParseTuple(arguments, "iinn:space_alloc", &kind, &device, &size, &stream))
        return NULL;
    int error = allocate(&block, kind, device, size, stream);
    return error != 0 ? homefree_failed(error, NULL) : PyLong_FromSsize_t((Py_ssize_t)block);
}

static PyObject *space_free(PyObject *module, PyObject *arguments)
{
    (void)module;
    Py_ssize_t address, stream;
    int error;
    if (!PyArg_ParseTuple(arguments, "nn:space_free", &address, &stream))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_free(pointer(address), pointer(stream));
    Py_END_ALLOW_THREADS
    return homefree_done(error, NULL);
}

static PyObject *space_use(PyObject *module, PyObject *arguments)
{
    (void)module;
    Py_ssize_t address, stream;
    int error;
    if (!PyArg_ParseTuple(arguments, "nn:space_use", &address, &stream))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_use(pointer(address), pointer(stream));
    Py_END_ALLOW_THREADS
    return homefree_done(error, NULL);
}

static PyObject *space_order(PyObject *module, PyObject *arguments)
{
    (void)module;
    int device, error;
    Py_ssize_t before, after;
    if (!PyArg_ParseTuple(arguments, "inn:space_order", &device, &before, &after))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_order(device, pointer(before), pointer(after));
    Py_END_ALLOW_THREADS
    return homefree_done(error, NULL);
}

static PyObject *space_of(PyObject *module, PyObject *number)
{
    (void)module;
    struct hf_space space = {.size = sizeof space};
    Py_ssize_t address = PyLong_AsSsize_t(number);
    if (address == -1 && PyErr_Occurred())
        return NULL;
    int error = hf_space_of(pointer(address), &space);
    if (error == -ENOENT)
        Py_RETURN_NONE;
    if (error != 0)
        return homefree_failed(error, NULL);
    return Py_BuildValue("iinnn", (int)space.kind, space.device, (Py_ssize_t)space.stream,
                         (Py_ssize_t)space.block, (Py_ssize_t)space.block_size);
}

static PyObject *space_stats(PyObject *module, PyObject *arguments)
{
    (void)module;
    int kind, device, error;
    struct hf_space_stats stats = {.size = sizeof stats};
    if (!PyArg_ParseTuple(arguments, "ii:space_stats", &kind, &device))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_stats((enum hf_space_kind)kind, device, HF_STREAM_ANY, &stats);
    Py_END_ALLOW_THREADS
    if (error != 0)
        return homefree_failed(error, NULL);
    return Py_BuildValue(
        "{sKsKsKsKsKsKsKsKsKsIsI}", "total", (unsigned long long)stats.total, "limit",
        (unsigned long long)stats.limit, "reserved", (unsigned long long)stats.reserved,
        "reserved_peak", (unsigned long long)stats.reserved_peak, "allocated",
        (unsigned long long)stats.allocated, "allocated_peak",
        (unsigned long long)stats.allocated_peak, "pending", (unsigned long long)stats.pending,
        "leaked", (unsigned long long)stats.leaked, "leaked_blocks",
        (unsigned long long)stats.leaked_blocks, "streams", (unsigned)stats.streams, "grown",
        (unsigned)stats.grown);
}

static PyObject *space_limit(PyObject *module, PyObject *arguments)
{
    (void)module;
    int kind, device, error;
    unsigned long long bytes;
    if (!PyArg_ParseTuple(arguments, "iiK:space_limit", &kind, &device, &bytes))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_limit((enum hf_space_kind)kind, device, bytes);
    Py_END_ALLOW_THREADS
    return homefree_done(error, NULL);
}

static PyObject *space_trim(PyObject *module, PyObject *arguments)
{
    (void)module;
    int kind, device, error;
    unsigned long long keep;
    uint64_t released = 0;
    if (!PyArg_ParseTuple(arguments, "iiK:space_trim", &kind, &device, &keep))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_space_trim((enum hf_space_kind)kind, device, keep, &released);
    Py_END_ALLOW_THREADS
    return error != 0 ? homefree_failed(error, NULL) : PyLong_FromUnsignedLongLong(released);
}

static PyObject *space_reason(PyObject *module, PyObject *arguments)
{
    (void)module;
    int kind, device;
    char text[512] = "";
    if (!PyArg_ParseTuple(arguments, "ii:space_reason", &kind, &device))
        return NULL;
    int error = hf_space_reason((enum hf_space_kind)kind, device, text, sizeof text);
    return error != 0 ? homefree_failed(error, NULL)
                      : PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* ---- records ---- */

static PyObject *record_run(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *capsule, *stream;
    if (!PyArg_ParseTuple(arguments, "OO:record_run", &capsule, &stream))
        return NULL;
    struct hf_release *record = hf_capsule_record(capsule);
    if (record == NULL)
        return NULL;
    int error = 0;
    if (stream != Py_None) {
        Py_ssize_t number = PyLong_AsSsize_t(stream);
        if (number == -1 && PyErr_Occurred())
            return NULL;
        error = hf_release_set_stream(record, pointer(number));
    }
    if (error == 0) {
        hf_release_take(record);
        Py_BEGIN_ALLOW_THREADS
        error = hf_release_run(record);
        hf_release_drop(record);
        Py_END_ALLOW_THREADS
    }
    if (error == -EALREADY)
        Py_RETURN_FALSE;
    if (error != 0)
        return homefree_failed(error, NULL);
    Py_RETURN_TRUE;
}

static PyObject *record_stream(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_release *record = hf_capsule_record(capsule);
    return record != NULL ? PyLong_FromSsize_t((Py_ssize_t)hf_release_stream(record)) : NULL;
}

static PyObject *record_number(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct hf_release *record = hf_capsule_record(capsule);
    return record != NULL ? PyLong_FromSsize_t((Py_ssize_t)record) : NULL;
}

/* Reads (number, block). Result: 0, or -1 with an exception; *out is NULL if no record of the block
 * is at that address. */
static int find_record(PyObject *arguments, struct hf_release **out)
{
    Py_ssize_t number, block;
    if (!PyArg_ParseTuple(arguments, "nn", &number, &block))
        return -1;
    *out = pointer(number);
    if (!hf_release_is(*out) || hf_release_pointer(*out) != pointer(block))
        *out = NULL;
    return 0;
}

static PyObject *record_is(PyObject *module, PyObject *arguments)
{
    (void)module;
    struct hf_release *record;
    return find_record(arguments, &record) == 0 ? PyBool_FromLong(record != NULL) : NULL;
}

static PyObject *record_done(PyObject *module, PyObject *arguments)
{
    (void)module;
    struct hf_release *record;
    if (find_record(arguments, &record) != 0)
        return NULL;
    if (record != NULL)
        (void)hf_release_set_stream(record, HF_STREAM_DONE);
    Py_RETURN_NONE;
}

/* ---- DLPack ---- */

static PyObject *dlpack_answer(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *capsule, *shape, *keywords;
    Py_ssize_t address, producer;
    int type, id, code, bits;
    unsigned long long flags;
    int64_t lengths[HF_DL_NDIM_MAX];
    struct hf_dlpack_request request;
    if (!PyArg_ParseTuple(arguments, "On(ii)(ii)O!KnO!:dlpack_answer", &capsule, &address, &type,
                          &id, &code, &bits, &PyTuple_Type, &shape, &flags, &producer, &PyDict_Type,
                          &keywords))
        return NULL;
    Py_ssize_t ndim = PyTuple_Size(shape);
    struct hf_release *record = hf_capsule_record(capsule);
    if (record == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < ndim && i < HF_DL_NDIM_MAX; i++) {
        lengths[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (lengths[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    PyObject *empty = PyTuple_New(0);
    if (empty == NULL)
        return NULL;
    int wrong = hf_dlpack_read_request(empty, keywords, &request);
    Py_DECREF(empty);
    if (wrong != 0)
        return NULL;
    const struct hf_dl_tensor tensor = {
        .data = pointer(address),
        .device = {type, id},
        .ndim = (int32_t)ndim,
        .dtype = {(uint8_t)code, (uint8_t)bits, 1},
        .shape = lengths,
    };
    return hf_dlpack_answer(record, &tensor, flags, pointer(producer), &request);
}

/* A tuple of `count` numbers; NULL with an exception. */
static PyObject *tuple_of(const int64_t *numbers, int32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(numbers[i]);
        if (number == NULL || PyTuple_SetItem(tuple, i, number) != 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *dlpack_import(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *object;
    Py_ssize_t stream;
    struct hf_dl_tensor *tensor;
    uint64_t flags;
    if (!PyArg_ParseTuple(arguments, "On:dlpack_import", &object, &stream))
        return NULL;
    struct hf_release *record = hf_dlpack_import(object, pointer(stream), &tensor, &flags);
    if (record == NULL)
        return NULL;
    PyObject *capsule = hf_capsule_of(record), *shape = tuple_of(tensor->shape, tensor->ndim);
    PyObject *strides =
        tensor->strides != NULL ? tuple_of(tensor->strides, tensor->ndim) : PyTuple_New(0);
    PyObject *result = NULL;
    if (capsule != NULL && shape != NULL && strides != NULL)
        result = Py_BuildValue(
            "On(ii)(iii)OOK", capsule, (Py_ssize_t)((char *)tensor->data + tensor->byte_offset),
            (int)tensor->device.type, (int)tensor->device.id, (int)tensor->dtype.code,
            (int)tensor->dtype.bits, (int)tensor->dtype.lanes, shape,
            tensor->strides != NULL ? strides : Py_None, (unsigned long long)flags);
    Py_XDECREF(capsule);
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    hf_python_drop(record);
    return result;
}

PyMethodDef homefree_cuda_methods[] = {
    {"space_new", space_new, METH_VARARGS, new_doc},
    {"space_alloc", space_alloc, METH_VARARGS, alloc_doc},
    {"space_free", space_free, METH_VARARGS, free_doc},
    {"space_use", space_use, METH_VARARGS, use_doc},
    {"space_order", space_order, METH_VARARGS, order_doc},
    {"space_of", space_of, METH_O, of_doc},
    {"space_stats", space_stats, METH_VARARGS, stats_doc},
    {"space_limit", space_limit, METH_VARARGS, limit_doc},
    {"space_trim", space_trim, METH_VARARGS, trim_doc},
    {"space_reason", space_reason, METH_VARARGS, reason_doc},
    {"record_run", record_run, METH_VARARGS, run_doc},
    {"record_stream", record_stream, METH_O, stream_doc},
    {"record_number", record_number, METH_O, number_doc},
    {"record_is", record_is, METH_VARARGS, is_doc},
    {"record_done", record_done, METH_VARARGS, done_doc},
    {"dlpack_answer", dlpack_answer, METH_VARARGS, answer_doc},
    {"dlpack_import", dlpack_import, METH_VARARGS, import_doc},
    {NULL, NULL, 0, NULL},
};
