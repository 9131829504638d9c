/*
 * A module with a static variable and memory of malloc(). It is single-phase, so interpreters have
 * private copies of it.
 */
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdlib.h>
#include <string.h>

static void *held;

static PyObject *hold(PyObject *module, PyObject *size)
{
    const size_t bytes = PyLong_AsSize_t(size);
    (void)module;
    if (PyErr_Occurred() != NULL)
        return NULL;
    void *larger = realloc(held, bytes);
    if (larger == NULL)
        return PyErr_NoMemory();
    held = memset(larger, 1, bytes);
    Py_RETURN_NONE;
}

static PyObject *drop(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    free(held);
    held = NULL;
    Py_RETURN_NONE;
}

/* A block of each size at a time, as a library takes them. */
static PyObject *borrow(PyObject *module, PyObject *size)
{
    const size_t bytes = PyLong_AsSize_t(size);
    (void)module;
    char *block = PyErr_Occurred() == NULL ? malloc(bytes) : NULL;
    if (block == NULL)
        return PyErr_Occurred() != NULL ? NULL : PyErr_NoMemory();
    memset(block, 1, bytes);
    free(block);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"hold", hold, METH_O, NULL},
    {"drop", drop, METH_NOARGS, NULL},
    {"borrow", borrow, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "hoarder", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_hoarder(void)
{
    return PyModule_Create(&definition);
}
