/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/dlpack_request.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* The method __dlpack__() of an object; METH_VARARGS | METH_KEYWORDS in its table of methods. */
static PyObject *dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct hf_dlpack_request request;
    if (hf_dlpack_read_request(args, kwargs, &request) != 0)
        return NULL;
    struct hf_release *memory = hf_capsule_record(self); /* in place of a field of the object */
    if (memory == NULL)
        return NULL;
    int64_t shape[] = {3};
    struct hf_dl_tensor tensor = {.data = hf_release_pointer(memory),
                                  .device = {HF_DL_CPU, 0},
                                  .ndim = 1,
                                  .dtype = {HF_DL_FLOAT, 64, 1},
                                  .shape = shape};
    return hf_dlpack_answer(memory, &tensor, 0, HF_STREAM_DONE, &request);
}

/* The stream that a consumer names, for a producer that orders its work by itself. */
static int consumer_stream(const struct hf_dlpack_request *request, void **stream)
{
    return hf_dlpack_stream(request->stream, HF_DL_CUDA, stream);
}

int main(void)
{
    Py_Initialize();
    PyObject *numbers = hf_capsule_new(hf_calloc(3, sizeof(double)), "numbers", hf_free);
    assert(numbers != NULL);
    PyObject *arguments = PyTuple_New(0), *keywords = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
    PyObject *capsule = dlpack(numbers, arguments, keywords);
    assert(capsule != NULL && PyCapsule_IsValid(capsule, "dltensor_versioned"));
    Py_DECREF(capsule);
    Py_DECREF(keywords);

    keywords = Py_BuildValue("{sO}", "copy", Py_True); /* a copy: refused */
    assert(dlpack(numbers, arguments, keywords) == NULL);
    assert(PyErr_ExceptionMatches(PyExc_BufferError));
    PyErr_Clear();
    Py_DECREF(keywords);

    struct hf_dlpack_request request = {.stream = PyLong_FromLong(2)};
    void *stream = NULL;
    assert(consumer_stream(&request, &stream) == 0 && stream == (void *)2);
    Py_DECREF(request.stream);
    Py_DECREF(arguments);
    Py_DECREF(numbers);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
