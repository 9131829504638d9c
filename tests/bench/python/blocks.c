/*
 * An extension that allocates for itself, for the benchmark of threads: blocks of malloc, and
 * capsules that hold one each. It needs no GIL.
 */
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#define NAME "bench block"

static void release(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, NAME));
}

static PyObject *capsules(PyObject *self, PyObject *args)
{
    Py_ssize_t count, size;
    (void)self;
    if (!PyArg_ParseTuple(args, "nn", &count, &size))
        return NULL;
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        void *block = malloc((size_t)size);
        PyObject *capsule = block != NULL ? PyCapsule_New(block, NAME, release) : PyErr_NoMemory();
        if (capsule == NULL) {
            free(block);
            Py_CLEAR(list);
            break;
        }
        memset(block, 1, (size_t)size);
        PyList_SET_ITEM(list, i, capsule);
    }
    return list;
}

/* Replaces one of some live blocks by a new one of another size, again and again. */
static PyObject *churn(PyObject *self, PyObject *args)
{
    enum { LIVE = 4096 };
    Py_ssize_t count;
    unsigned seed;
    (void)self;
    if (!PyArg_ParseTuple(args, "nI", &count, &seed))
        return NULL;
    void **live = calloc(LIVE, sizeof *live);
    if (live == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const size_t size = 16 + (seed >> 8) % ((seed >> 4) % 16 == 0 ? 16384 : 512);
        void **at = &live[(seed >> 20) % LIVE];
        free(*at);
        *at = malloc(size);
        if (*at != NULL)
            memset(*at, 1, size < 64 ? size : 64);
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i]);
    Py_END_ALLOW_THREADS;
    free(live);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"capsules", capsules, METH_VARARGS, NULL},
                                {"churn", churn, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "blocks", .m_methods = methods,
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit_blocks(void)
{
    return PyModuleDef_Init(&definition);
}
