/* The user's module in each way to install homefree: blocks cross its boundary in both directions.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <stdlib.h>
#include <string.h>

/* A block that the module allocated, as an address; anybody may free it. */
static PyObject *give(PyObject *self, PyObject *args)
{
    return PyLong_FromVoidPtr(strdup("a block of the module"));
}

/* Frees anybody's block. */
static PyObject *take(PyObject *self, PyObject *address)
{
    void *block = PyLong_AsVoidPtr(address);
    if (block == NULL && PyErr_Occurred())
        return NULL;
    free(block);
    Py_RETURN_NONE;
}

static PyObject *owned(PyObject *self, PyObject *address)
{
    void *block = PyLong_AsVoidPtr(address);
    if (block == NULL && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(hf_owns(block));
}

static PyMethodDef methods[] = {
    {"give", give, METH_NOARGS, NULL},
    {"take", take, METH_O, NULL},
    {"owned", owned, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "greet", NULL, -1, methods};

PyMODINIT_FUNC HF_MODULE_INIT(void)
{
    return PyModule_Create(&module);
}
