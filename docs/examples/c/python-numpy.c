/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/numpy.h>, as alloc/manual/pages.py takes them. */
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>

#include <assert.h>
#include <homefree/python.h>

/* An array over memory of C's, which is freed with the last view. */
static PyObject *array_of(npy_intp count)
{
    double *numbers = hf_calloc((size_t)count, sizeof *numbers);
    struct hf_release *memory = hf_python_record(numbers, "numbers", hf_free);
    if (memory == NULL) {
        hf_free(numbers);
        return NULL;
    }
    PyObject *array = PyArray_SimpleNewFromData(1, &count, NPY_DOUBLE, numbers);
    if (array != NULL && hf_numpy_own((PyArrayObject *)array, memory) != 0)
        Py_CLEAR(array);
    hf_release_drop(memory); /* the array holds on */
    return array;
}

static uint64_t live(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    hf_stats(&stats);
    return stats.releases_live;
}

int main(void)
{
    Py_Initialize();
    if (_import_array() != 0) {
        PyErr_Print();
        return 1;
    }
    PyObject *array = array_of(100);
    assert(array != NULL && live() == 1);
    Py_DECREF(array);
    assert(live() == 0);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
