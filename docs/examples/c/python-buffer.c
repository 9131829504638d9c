/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/buffer.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* A table of C's that Python reads and writes without a copy, by memoryview() or NumPy. */
static PyObject *table(Py_ssize_t rows, Py_ssize_t columns)
{
    double *numbers = hf_calloc((size_t)(rows * columns), sizeof *numbers);
    struct hf_release *record = hf_python_record(numbers, "table", hf_free);
    if (record == NULL) {
        hf_free(numbers);
        return NULL;
    }
    Py_ssize_t shape[] = {rows, columns};
    struct hf_buffer_layout layout = {
        .format = "d", .itemsize = sizeof *numbers, .ndim = 2, .shape = shape};
    PyObject *object = hf_buffer_new(record, numbers, &layout);
    hf_python_drop(record); /* the object has a reference of its own */
    return object;
}

/* The same as a NumPy array, without NumPy's headers. */
static PyObject *array(Py_ssize_t count)
{
    double *numbers = hf_calloc((size_t)count, sizeof *numbers);
    struct hf_release *record = hf_python_record(numbers, "numbers", hf_free);
    if (record == NULL) {
        hf_free(numbers);
        return NULL;
    }
    struct hf_buffer_layout layout = {
        .format = "d", .itemsize = sizeof *numbers, .ndim = 1, .shape = &count};
    PyObject *object = hf_numpy_array(record, numbers, &layout);
    hf_python_drop(record);
    return object; /* NULL with an exception, an ImportError if there is no NumPy */
}

int main(void)
{
    Py_Initialize();
    PyObject *numbers = array(100);
    assert(numbers != NULL ? PyObject_Size(numbers) == 100
                           : PyErr_ExceptionMatches(PyExc_ImportError));
    PyErr_Clear();
    Py_XDECREF(numbers);
    PyObject *object = table(3, 4);
    assert(object != NULL);
    PyObject *view = PyMemoryView_FromObject(object);
    assert(view != NULL && PyMemoryView_GET_BUFFER(view)->len == 96);
    Py_DECREF(object);
    Py_DECREF(view);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
