/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What sys._current_frames() is in a process with several GILs: the frames of this interpreter's
 * threads. CPython's own makes frame objects for the code of all interpreters, in the memory of the
 * caller's; the process dies later, in another place.
 *
 * The stable ABI has no functions for it, so they are looked up in the CPython that runs. State:
 * where a thread state has its thread's number, found once. Called by attached threads. No other
 * thread of the interpreter runs, and none of them ends, meanwhile: with a GIL because nothing here
 * detaches the caller, without one because the world is stopped.
 */
#include "python/native/crossing.h"
#include "python/native/module_parts.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

PyDoc_STRVAR(frames_doc,
             "own_frames()\n--\n\n"
             "The frame that each thread of this interpreter runs, by the thread's number. None if "
             "this CPython does not let them be found.");

void *homefree_function_of_cpython(const char *name)
{
    Dl_info info;
    struct link_map *map = NULL;
    void *anchor = (void *)PyType_FromSpec, *found = NULL;
    if (dladdr1(anchor, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return NULL;
    /* The program itself has an empty name and is opened as NULL. */
    void *handle = dlopen(map->l_name[0] != '\0' ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL) {
        found = dlsym(handle, name);
        dlclose(handle);
    }
    return found;
}

/* The words at which a thread state has its thread's number, and then the kernel's. 0: unknown. */
static size_t find_number(void)
{
    enum { WORDS = 48 };
    static _Atomic(size_t) found;
    size_t at = atomic_load_explicit(&found, memory_order_relaxed);
    const unsigned long *words = (const unsigned long *)PyThreadState_Get();
    const unsigned long own = PyThread_get_thread_ident(),
                        kernels = (unsigned long)syscall(SYS_gettid);
    while (at == 0 || (at < WORDS && !(words[at] == own && words[at + 1] == kernels)))
        at++;
    if (at == WORDS)
        return 0;
    atomic_store_explicit(&found, at, memory_order_relaxed);
    return at;
}

struct walking {
    PyThreadState *(*first)(PyInterpreterState *interpreter);
    PyThreadState *(*next)(PyThreadState *thread);
    PyObject *(*frame_of)(PyThreadState *thread);
    void (*stop_others)(PyInterpreterState *interpreter);
    void (*start_others)(PyInterpreterState *interpreter);
};

static struct walking functions;

#ifdef Py_GIL_DISABLED
static void find_stop(void)
{
    functions.stop_others =
        (void (*)(PyInterpreterState *))homefree_function_of_cpython("_PyEval_StopTheWorld");
    functions.start_others =
        (void (*)(PyInterpreterState *))homefree_function_of_cpython("_PyEval_StartTheWorld");
}
#else
static void keep_gil(PyInterpreterState *interpreter)
{
    (void)interpreter;
}

static void find_stop(void)
{
    functions.stop_others = functions.start_others = keep_gil;
}
#endif

static void find_functions(void)
{
    find_stop();
    functions.first = (PyThreadState * (*)(PyInterpreterState *))
        homefree_function_of_cpython("PyInterpreterState_ThreadHead");
    functions.next =
        (PyThreadState * (*)(PyThreadState *)) homefree_function_of_cpython("PyThreadState_Next");
    functions.frame_of =
        (PyObject * (*)(PyThreadState *)) homefree_function_of_cpython("PyThreadState_GetFrame");
}

static bool are_found(const struct walking *with)
{
    return with->first != NULL && with->next != NULL && with->frame_of != NULL &&
           with->stop_others != NULL && with->start_others != NULL;
}

static int add_frame(PyObject *frames, unsigned long number, PyObject *frame)
{
    PyObject *key = PyLong_FromUnsignedLong(number);
    const int error = key != NULL ? PyDict_SetItem(frames, key, frame) : -1;
    Py_XDECREF(key);
    return error;
}

static PyObject *own_frames(PyObject *module, PyObject *unused)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct walking *with = &functions;
    const size_t at = find_number();
    (void)module;
    (void)unused;
    pthread_once(&once, find_functions);
    if (at == 0 || !are_found(with))
        Py_RETURN_NONE;
    PyObject *frames = PyDict_New();
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    int error = frames != NULL ? 0 : -1;
    with->stop_others(interpreter);
    for (PyThreadState *thread = with->first(interpreter); error == 0 && thread != NULL;
         thread = with->next(thread)) {
        const unsigned long number = ((const unsigned long *)thread)[at];
        PyObject *frame = number != 0 ? with->frame_of(thread) : NULL;
        error = frame != NULL ? add_frame(frames, number, frame) : 0;
        Py_XDECREF(frame);
    }
    with->start_others(interpreter);
    if (error != 0)
        Py_CLEAR(frames);
    return frames;
}

PyMethodDef homefree_frames_methods[] = {
    {"own_frames", own_frames, METH_NOARGS, frames_doc},
    {NULL, NULL, 0, NULL},
};
