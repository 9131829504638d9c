/*
 * An extension module, USER_NAME, that shares an object with others through a library; and, if
 * USER_BORROWS, one that declares support for interpreters with a GIL of their own although it
 * keeps a table that it has from a capsule in a static variable, as SciPy's modules do.
 */
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
#define INIT_OF(name) PyInit_##name
#define INIT(name)    INIT_OF(name)

#ifdef USER_BORROWS
static void *table;
static PyObject *next(PyObject *self, PyObject *capsule)
{
    (void)self;
    if (table == NULL)
        table = PyCapsule_GetPointer(capsule, NULL);
    return table != NULL ? PyLong_FromVoidPtr(table) : NULL;
}
static PyMethodDef methods[] = {{"next", next, METH_O, ""}, {NULL, NULL, 0, NULL}};
#else
PyObject *holder_next(void);
static PyObject *next(PyObject *self, PyObject *none)
{
    (void)self;
    (void)none;
    return holder_next();
}
static PyMethodDef methods[] = {{"next", next, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
#endif

/* Py_mod_multiple_interpreters and Py_MOD_PER_INTERPRETER_GIL_SUPPORTED */
static PyModuleDef_Slot slots[] = {{3, (void *)2}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(USER_NAME), "", 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC INIT(USER_NAME)(void);
PyMODINIT_FUNC INIT(USER_NAME)(void)
{
#ifdef USER_BORROWS
    return PyModuleDef_Init(&definition);
#else
    definition.m_slots = NULL;
    return PyModule_Create(&definition);
#endif
}
