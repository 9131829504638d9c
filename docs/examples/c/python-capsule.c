/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/python/capsule.h>, as alloc/manual/pages.py takes them. */
#include <Python.h>
#include <homefree/python.h>

#include <assert.h>

/* A capsule that frees its memory, once, whoever drops it last, and where. */
static PyObject *samples(size_t count)
{
    double *numbers = hf_calloc(count, sizeof *numbers);
    if (numbers == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = hf_capsule_new(numbers, "samples", hf_free);
    if (capsule == NULL)
        hf_free(numbers);
    return capsule;
}

/* C code that keeps the memory of a capsule, and hands it to Python again. */
static PyObject *kept(PyObject *capsule)
{
    struct hf_release *record = hf_capsule_record(capsule);
    if (record == NULL)
        return NULL;
    hf_release_take(record);
    PyObject *again = hf_capsule_of(record);
    hf_release_drop(record);
    return again;
}

int main(void)
{
    Py_Initialize();
    PyObject *capsule = samples(100);
    assert(capsule != NULL);
    PyObject *again = kept(capsule);
    Py_DECREF(capsule);
    assert(again != NULL && PyCapsule_GetPointer(again, "samples") != NULL);
    Py_DECREF(again);
    return Py_FinalizeEx() == 0 ? 0 : 1;
}
