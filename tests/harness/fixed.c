/* A type that is static in C, as most of Cython's are, with a method whose result crosses. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

struct box {
    PyObject base;
    int byte;
    int *counter;
};

static int initialise(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *known[] = {"byte", NULL};
    return PyArg_ParseTupleAndKeywords(arguments, names, "i", known, &((struct box *)self)->byte)
               ? 0
               : -1;
}

static PyObject *data(PyObject *self, PyObject *size)
{
    const Py_ssize_t length = PyLong_AsSsize_t(size);
    PyObject *made = length >= 0 ? PyByteArray_FromStringAndSize(NULL, length) : NULL;
    if (made != NULL)
        memset(PyByteArray_AsString(made), ((struct box *)self)->byte, (size_t)length);
    return made;
}

/* Dies unless start() was called before. */
static PyObject *count(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyByteArray_FromStringAndSize(NULL, ++*((struct box *)self)->counter);
}

static PyObject *start(PyObject *self, PyObject *ignored)
{
    static int counter;
    (void)ignored;
    ((struct box *)self)->counter = &counter;
    return PyByteArray_FromStringAndSize(NULL, 1);
}

static PyMethodDef box_methods[] = {
    {"data", data, METH_O, NULL},
    {"count", count, METH_NOARGS, NULL},
    {"start", start, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject box_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "fixed.Box",
    .tp_basicsize = sizeof(struct box),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_methods = box_methods,
    .tp_init = initialise,
    .tp_new = PyType_GenericNew,
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "fixed",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit_fixed(void);
PyMODINIT_FUNC PyInit_fixed(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyType_Ready(&box_type) != 0 ||
        PyObject_SetAttrString(module, "Box", (PyObject *)&box_type) != 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
