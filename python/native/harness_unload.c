/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.harness._unload: calls functions when the dynamic linker unloads the process's objects.
 *
 * Owns: a list of calls, to which any thread may add, and which one ELF destructor uses at the end
 * of the process. It links nothing of homefree, so that it can be loaded where homefree is not.
 */
#define PY_SSIZE_T_CLEAN
#include <pyconfig.h> /* says whether this CPython is free-threaded */
#ifndef Py_GIL_DISABLED
#    define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 64 };

static struct {
    void (*function)(void *argument);
    void *argument;
    int descriptor;
} calls[CALLS_MAX];
static int call_count;

static const char done[] = "{\"end\": true}\n";

/* Runs after the interpreter's end, and after the handlers of atexit(3). */
__attribute__((destructor)) static void run_calls(void)
{
    for (int i = 0; i < CALLS_MAX && calls[i].function != NULL; i++)
        calls[i].function(calls[i].argument);
    if (call_count > 0 && write(calls[0].descriptor, done, strlen(done)) < 0)
        _exit(EXIT_FAILURE);
}

/* at_unload(function, argument, descriptor): addresses, and where to write that all was done. */
static PyObject *at_unload(PyObject *self, PyObject *arguments)
{
    unsigned long long function, argument;
    int descriptor;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "KKi", &function, &argument, &descriptor))
        return NULL;
    const int mine =
        function != 0 ? __atomic_fetch_add(&call_count, 1, __ATOMIC_RELAXED) : CALLS_MAX;
    if (mine >= CALLS_MAX) {
        PyErr_SetString(PyExc_ValueError, "at_unload(): no function, or too many calls");
        return NULL;
    }
    memcpy(&calls[mine].function, &function, sizeof calls[0].function);
    memcpy(&calls[mine].argument, &argument, sizeof calls[0].argument);
    calls[mine].descriptor = descriptor;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"at_unload", at_unload, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_unload",
    .m_doc = "Calls functions when the process's objects are unloaded.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__unload(void);
PyMODINIT_FUNC PyInit__unload(void)
{
    return PyModuleDef_Init(&definition);
}
