/* SPDX-License-Identifier: BSD-2-Clause */
/* A module for the examples in Python: blocks of malloc. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

static void release(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, "fast.block"));
}

static PyObject *take(PyObject *module, PyObject *size)
{
    (void)module;
    size_t bytes = PyLong_AsSize_t(size);
    if (PyErr_Occurred())
        return NULL;
    void *block = malloc(bytes);
    return block == NULL ? PyErr_NoMemory() : PyCapsule_New(block, "fast.block", release);
}

static PyObject *address(PyObject *module, PyObject *capsule)
{
    (void)module;
    return PyLong_FromVoidPtr(PyCapsule_GetPointer(capsule, "fast.block"));
}

static PyMethodDef methods[] = {{"take", take, METH_O, "A block of so many bytes."},
                                {"address", address, METH_O, "Its address."},
                                {0}};
static struct PyModuleDef fast = {PyModuleDef_HEAD_INIT, .m_name = "fast", .m_methods = methods};

PyMODINIT_FUNC PyInit_fast(void)
{
    return PyModule_Create(&fast);
}
