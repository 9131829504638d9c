/* The module that tests of installations build: check() is true where its memory is the heap's. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <homefree/homefree.h>
#include <homefree/python.h>
#include <stdlib.h>
#include <string.h>

int helper_that_must_stay_inside(void);
int helper_that_must_stay_inside(void)
{
    return 1;
}

static PyObject *check(PyObject *self, PyObject *args)
{
    char *copy = strdup("memory of the module");
    /* getenv: auditwheel looks for libc among what a module needs, and this one calls nothing else
     * of it that homefree does not replace. */
    int owned = hf_owns(copy) && helper_that_must_stay_inside() && getenv("") == NULL;
    PyObject *capsule = hf_capsule_new(copy, "copy", free);
    if (capsule == NULL)
        return NULL;
    Py_DECREF(capsule);
    return PyBool_FromLong(owned);
}

static PyMethodDef methods[] = {{"check", check, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "greet", NULL, -1, methods};

PyMODINIT_FUNC PyInit_greet(void)
{
    PyObject *greet = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
    if (greet != NULL)
        PyUnstable_Module_SetGIL(greet, Py_MOD_GIL_NOT_USED);
#endif
    return greet;
}
