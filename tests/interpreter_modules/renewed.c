/*
 * A module that is not fit for interpreters, with all that has to be new when the next interpreter
 * takes over its private copy: data, zeros, thread-local variables, and what a constructor makes
 * and a destructor takes apart. new() says what of it is not.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#define BLOCK "made by the constructor"

static long number = 7;
static char zeros[100000];
static long *pointer = &number;
static void *function = (void *)PyLong_FromLong;
static __thread long own = 5;
static char *block;
static PyObject *kept, *early;

__attribute__((constructor)) static void construct(void)
{
    if (block != NULL)
        abort(); /* it runs again on what it has made */
    block = strdup(BLOCK);
    const PyGILState_STATE state = PyGILState_Ensure();
    early = PyList_New(10);
    PyGILState_Release(state);
}

__attribute__((destructor)) static void destroy(void)
{
    memset(block, 'x', 4);
    free(block);
}

static PyObject *new (PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    const char *old = NULL;
    for (size_t i = 0; i < sizeof zeros; i++)
        old = zeros[i] != 0 ? "zeros" : old;
    old = number != 7 ? "number" : old;
    old = pointer != &number ? "pointer" : old;
    old = function != (void *)PyLong_FromLong ? "function" : old;
    old = own != 5 ? "own" : old;
    old = block == NULL || strcmp(block, BLOCK) != 0 ? "block" : old;
    old = kept != NULL ? "kept" : old;
    old = early == NULL || PyList_Size(early) != 10 ? "early" : old;
    Py_CLEAR(early); /* an object of this interpreter's */
    memset(zeros, 1, sizeof zeros);
    number = own = 1;
    pointer = NULL;
    function = NULL;
    free(block);
    block = strdup("another");
    kept = PyList_New(10000);
    return PyUnicode_FromString(old != NULL ? old : "");
}

static PyMethodDef methods[] = {{"new", new, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "renewed", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

#ifdef RENEWED_OPEN
#    define PyInit_renewed PyInit_renewed_open
#endif

PyMODINIT_FUNC PyInit_renewed(void)
{
    return PyModule_Create(&definition);
}
