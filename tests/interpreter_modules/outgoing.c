/*
 * A module that makes what lies outside of its own data: a key of thread-specific data, a
 * thread-local object that the thread destroys as it ends, calls that CPython makes later and at
 * its end, and threads. Its functions say what of that is not as in a module that was just loaded.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

int __cxa_thread_atexit_impl(void (*destroy)(void *pointer), void *pointer, void *object);
extern void *__dso_handle;

static pthread_key_t key;
static int has_key, destroyed, specific_ended;
static __thread int *object;
static __thread long count;
static sem_t go;

static void end_specific(void *pointer)
{
    specific_ended++;
    free(pointer);
}

static void destroy(void *pointer)
{
    if (*(int *)pointer != 7)
        abort();
    destroyed++;
    free(pointer);
}

#ifdef OUTGOING_EARLY
__attribute__((constructor)) static void construct(void)
{
    has_key = pthread_key_create(&key, end_specific) == 0;
}
#endif

static int make_object(void)
{
    object = malloc(sizeof *object);
    *object = 7;
    return __cxa_thread_atexit_impl(destroy, object, &__dso_handle);
}

/* The data is as use() has left it. */
static void end(void)
{
    if (!has_key)
        abort();
}

static PyObject *use(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    if (destroyed != 0 || specific_ended != 0 || object != NULL)
        return PyUnicode_FromString("it is not new");
    if (!has_key && pthread_key_create(&key, end_specific) != 0)
        return PyUnicode_FromString("there is no key");
    if (pthread_getspecific(key) != NULL)
        return PyUnicode_FromString("the key is an old one");
    has_key = 1;
    if (Py_AtExit(end) != 0)
        return PyUnicode_FromString("CPython calls nothing more at its end");
    pthread_setspecific(key, malloc(8));
    return PyUnicode_FromString(make_object() == 0 ? "" : "there is no object");
}

/* Of this thread. */
static PyObject *count_up(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyLong_FromLong(++count);
}

static void *run_shortly(void *argument)
{
    return make_object() == 0 ? argument : NULL;
}

static void *run_on(void *argument)
{
    while (sem_wait(argument) != 0)
        ;
    return NULL;
}

/* A thread that ends, with an object. */
static PyObject *visit(PyObject *module, PyObject *none)
{
    pthread_t thread;
    void *result = NULL;
    (void)module;
    (void)none;
    if (pthread_create(&thread, NULL, run_shortly, &go) == 0)
        pthread_join(thread, &result);
    return PyBool_FromLong(result == &go && destroyed == 1);
}

/* A thread that stays. */
static PyObject *stay(PyObject *module, PyObject *none)
{
    pthread_t thread;
    (void)module;
    (void)none;
    sem_init(&go, 0, 0);
    return PyBool_FromLong(pthread_create(&thread, NULL, run_on, &go) == 0 &&
                           pthread_detach(thread) == 0);
}

static void run_on_python(void *argument)
{
    (void)run_on(argument);
}

/* The same, of CPython's. */
static PyObject *stay_python(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    sem_init(&go, 0, 0);
    return PyBool_FromLong(PyThread_start_new_thread(run_on_python, &go) != (unsigned long)-1);
}

static int called(void *argument)
{
    if (argument == NULL || destroyed == 0)
        abort(); /* the copy is new, so this is of the one before */
    return 0;
}

static void call_later(void *argument)
{
    destroyed++;
    (void)Py_AddPendingCall(called, argument);
}

/* What the thread leaves to CPython as it ends. */
static PyObject *leave(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyBool_FromLong(__cxa_thread_atexit_impl(call_later, &go, &__dso_handle) == 0);
}

static PyMethodDef methods[] = {
    {"use", use, METH_NOARGS, NULL},
    {"visit", visit, METH_NOARGS, NULL},
    {"stay", stay, METH_NOARGS, NULL},
    {"count_up", count_up, METH_NOARGS, NULL},
    {"stay_python", stay_python, METH_NOARGS, NULL},
    {"leave", leave, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "outgoing", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

#ifdef OUTGOING_EARLY
#    define PyInit_outgoing PyInit_outgoing_early
#endif

PyMODINIT_FUNC PyInit_outgoing(void)
{
    return PyModule_Create(&definition);
}
