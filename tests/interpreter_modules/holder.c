/*
 * A library that calls CPython and keeps an object in a global variable, as pyarrow's
 * libarrow_python does.
 */
#define Py_LIMITED_API 0x03090000
#include <Python.h>

PyObject *holder_next(void);

static PyObject *held;

/* A new reference to the list that is kept, with one more element. */
PyObject *holder_next(void)
{
    if (held == NULL)
        held = PyList_New(0);
    if (held == NULL || PyList_Append(held, Py_None) != 0)
        return NULL;
    Py_INCREF(held);
    return held;
}
