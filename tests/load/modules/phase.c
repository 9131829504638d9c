/*
 * A Python extension module of the limited API that keeps a counter in a global variable; module
 * names and phases are chosen when it is compiled:
 *
 * PHASE_NAME     the module's name
 * PHASE_SINGLE   single-phase initialisation, with this m_size
 * PHASE_MULTI    otherwise; it says that it is fit for interpreters with a GIL of their own
 * PHASE_SILENT   it does not say so
 * PHASE_NEWER    it calls a function of a later libhomefree
 * PHASE_EMBEDDED it holds what recognises an allocator that was compiled in
 * PHASE_TLS      it has this many bytes of static thread-local storage
 * PHASE_FAILS    it raises ValueError
 * PHASE_EXPORT   it has a PyModExport function as well, which no CPython before 3.15 calls
 * PHASE_NO_INIT  it has no PyInit function
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name) #name
#define TEXT(name)    TEXT_OF(name)
#ifdef PHASE_NO_INIT
#    define INIT_OF(name) init_##name
#else
#    define INIT_OF(name) PyInit_##name
#endif
#define INIT(name)      INIT_OF(name)
#define EXPORT_OF(name) PyModExport_##name
#define EXPORT(name)    EXPORT_OF(name)

#ifdef PHASE_NEWER
int hf_of_the_future(void);
#endif

#ifdef PHASE_EMBEDDED
const char *phase_message = "<jemalloc>: what every message of jemalloc begins with";
#endif

static long counter;
static long starts; /* how often a module was made from this object */
long phase_exported;

#ifdef PHASE_TLS
__thread char phase_block[PHASE_TLS] __attribute__((tls_model("initial-exec")));
#endif

static PyObject *count(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyLong_FromLong(++counter);
}

static PyObject *count_exported(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyLong_FromLong(++phase_exported);
}

/* Returns the addresses of blocks that only free() can release; they leak. */
static PyObject *allocate(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return Py_BuildValue("{sKsKsK}", "malloc", (unsigned long long)(uintptr_t)malloc(100), "strdup",
                         (unsigned long long)(uintptr_t)strdup("text"), "calloc",
                         (unsigned long long)(uintptr_t)calloc(10, 10));
}

static PyMethodDef methods[] = {
    {"count", count, METH_NOARGS, NULL},
    {"count_exported", count_exported, METH_NOARGS, NULL},
    {"allocate", allocate, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* Counts in an environment variable how often the module's code has run, so that tests see whether
 * it has. */
static int execute(PyObject *module)
{
    setenv("PHASE_RAN", "1", 1);
#ifdef PHASE_NEWER
    counter += hf_of_the_future();
#endif
    long interpreter = (long)PyInterpreterState_GetID(PyInterpreterState_Get());
    starts++;
#ifdef PHASE_TLS
    phase_block[starts] = 1;
#endif
#ifdef PHASE_FAILS
    PyErr_SetString(PyExc_ValueError, "the module says no");
    return -1;
#endif
    if (PyModule_AddIntConstant(module, "interpreter", interpreter) != 0 ||
        PyModule_AddIntConstant(module, "starts", starts) != 0)
        return -1;
    return PyModule_AddIntConstant(module, "counter_at_start", counter);
}

__attribute__((constructor)) static void construct(void)
{
    setenv("PHASE_CONSTRUCTED", "1", 1);
}

PyMODINIT_FUNC INIT(PHASE_NAME)(void);

#ifdef PHASE_SINGLE
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(PHASE_NAME), NULL, PHASE_SINGLE, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC INIT(PHASE_NAME)(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && execute(module) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
#else
/* Py_mod_multiple_interpreters, known from 3.12 on; older versions refuse unknown numbers. */
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, TEXT(PHASE_NAME), NULL, 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC INIT(PHASE_NAME)(void)
{
    int minor = atoi(Py_GetVersion() + 2);
#    ifdef PHASE_SILENT
    minor = 0;
#    endif
    if (minor >= 12) {
        slots[1].slot = 3;
        slots[1].value = (void *)2;
    }
    return PyModuleDef_Init(&definition);
}
#endif

#ifdef PHASE_EXPORT
void *EXPORT(PHASE_NAME)(void);
void *EXPORT(PHASE_NAME)(void)
{
    abort();
}
#endif
