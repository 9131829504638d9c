/* A module on homefree: the heap is linked in, and malloc is the heap's. */
#include <Python.h>
#include <homefree/homefree.h>
#include <stdlib.h>

/* owned(): whether what malloc gives here is the heap's. Freed by anybody, it goes home. */
static PyObject *owned(PyObject *module, PyObject *arguments)
{
    (void)module, (void)arguments;
    void *block = malloc(100);
    PyObject *result = PyBool_FromLong(hf_owns(block));
    free(block);
    return result;
}

static PyMethodDef methods[] = {{"owned", owned, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "minimal", .m_size = -1,
                                 .m_methods = methods};

PyMODINIT_FUNC PyInit_minimal(void)
{
    return PyModule_Create(&definition);
}
