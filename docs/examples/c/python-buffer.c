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

int main(void)
{
    Py_Initialize();
    PyObject *object = table(3, 4);
    assert(object != NULL);
    PyObject *view = PyMemoryView_FromObject(object);
    assert(view != NULL && PyMemoryView_GET_BUFFER(view)->len == 96);
    Py_DECREF(object);
    Py_DECREF(view);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
