/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/python/dlpack_request.h - what __dlpack__() does: reading a request, and answering it.
 *
 * The rules are those of homefree/python.h.
 */
#ifndef HOMEFREE_PYTHON_DLPACK_REQUEST_H
#define HOMEFREE_PYTHON_DLPACK_REQUEST_H

#include <homefree/python/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
