/*
 * A module for all interpreters of a process, as it says: loaded as it is, it outlives each of
 * them. It takes memory of an interpreter's over, and keeps it where static data does not refer to
 * it.
 */
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdlib.h>
#include <string.h>

enum { SMALL = 200, LARGE = 2000, MULTIPLE_INTERPRETERS = 3 };
#define OWN_GIL ((void *)2)

static struct node {
    struct node *next;
    char *blocks[2];
} * first;

static char *take(size_t size)
{
    char *block = PyMem_Malloc(size);
    return block != NULL ? memset(block, 7, size) : NULL;
}

static PyObject *keep(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    struct node *node = malloc(sizeof *node);
    if (node == NULL)
        return PyErr_NoMemory();
    *node = (struct node){first, {take(SMALL), take(LARGE)}};
    first = node;
    return PyLong_FromLong(1);
}

static long is_whole(const char *block, size_t size)
{
    return block != NULL && block[0] == 7 && memcmp(block, block + 1, size - 1) == 0;
}

/* How many blocks are as they were; they are freed. */
static PyObject *drop(PyObject *module, PyObject *none)
{
    long whole = 0;
    (void)module;
    (void)none;
    while (first != NULL) {
        struct node *node = first;
        whole += is_whole(node->blocks[0], SMALL) + is_whole(node->blocks[1], LARGE);
        PyMem_Free(node->blocks[0]);
        PyMem_Free(node->blocks[1]);
        first = node->next;
        free(node);
    }
    return PyLong_FromLong(whole);
}

static int execute(PyObject *module)
{
    (void)module;
    return 0;
}

static PyMethodDef methods[] = {
    {"keep", keep, METH_NOARGS, NULL},
    {"drop", drop, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {MULTIPLE_INTERPRETERS, OWN_GIL},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "taker", NULL, 0, methods, slots, NULL, NULL, NULL,
};

#ifdef TAKER_GIVES
#    define PyInit_taker PyInit_giver
#endif

PyMODINIT_FUNC PyInit_taker(void)
{
    return PyModuleDef_Init(&definition);
}
