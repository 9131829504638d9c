/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree.limit()'s part of the extension: homefree/limit.h. A limit is a capsule.
 *
 * Who is told that a limit is reached: with "trim", the thread that allocates, if it is attached to
 * the limit's interpreter; otherwise the limit's own thread, which waits in limit_wait(), and for
 * which the allocating thread waits, for a second at most. In the other modes the main thread,
 * between two instructions of Python's (a pending call).
 *
 * Owns each limit's record, which the capsule and a pending call share; its mutex guards what its
 * own thread is asked for, and is held for no call.
 */
#include "python/native/module_state.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

static const char limit_name[] = "homefree.limit";

struct record {
    struct hf_limit *limit; /* atomic; NULL once it has ended */
    PyObject *told;         /* told(asked, waits), or NULL; who drops the record last drops it */
    PyInterpreterState *interpreter;
    unsigned references; /* atomic */
    bool pending;        /* atomic */
    bool gone;           /* atomic: the capsule */
    uint64_t asked;      /* atomic: of the pending call */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t requests, answers; /* of the limit's own thread */
    uint64_t request;           /* what was asked for last */
    bool ended;
};

static const struct homefree_remedy remedies[] = {{-ENOMEM, NULL}, {0, NULL}};

static void make_lock(struct record *record)
{
    pthread_condattr_t clock;
    pthread_mutex_init(&record->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&record->changed, &clock);
    pthread_condattr_destroy(&clock);
}

/* Whoever may be the last holder is attached. */
static void drop(struct record *record)
{
    if (__atomic_sub_fetch(&record->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    Py_XDECREF(record->told);
    pthread_cond_destroy(&record->changed);
    pthread_mutex_destroy(&record->lock);
    free(record);
}

/* ---- telling ---- */

/* waits: the allocation waits for what comes of it. */
static int tell(const struct record *record, uint64_t asked, bool waits)
{
    PyObject *result = PyObject_CallFunction(record->told, "KO", (unsigned long long)asked,
                                             waits ? Py_True : Py_False);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static int tell_later(void *argument)
{
    struct record *record = argument;
    __atomic_store_n(&record->pending, false, __ATOMIC_RELEASE);
    const int result = __atomic_load_n(&record->gone, __ATOMIC_ACQUIRE)
                           ? 0
                           : tell(record, __atomic_load_n(&record->asked, __ATOMIC_RELAXED), false);
    drop(record);
    return result;
}

/* In the middle of whatever the thread does with its objects and its exception. */
static void tell_now(const struct record *record, uint64_t asked)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (tell(record, asked, true) != 0)
        PyErr_WriteUnraisable(record->told);
    PyErr_Restore(type, value, traceback);
}

static void ask_thread(struct record *record, uint64_t asked, bool waits)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&record->lock);
    const uint64_t mine = ++record->requests;
    record->request = asked;
    pthread_cond_broadcast(&record->changed);
    while (waits && record->answers < mine && !record->ended &&
           pthread_cond_timedwait(&record->changed, &record->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&record->lock);
}

/* On the thread that allocates. */
static void reached(void *context, const struct hf_limit_state *state, uint64_t asked)
{
    struct record *record = context;
    const bool attached = state->python != 0;
    if (state->mode == HF_LIMIT_TRIM) {
        if (attached && PyInterpreterState_Get() == record->interpreter)
            tell_now(record, asked);
        else
            ask_thread(record, asked, !attached);
        return;
    }
    __atomic_store_n(&record->asked, asked, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&record->pending, true, __ATOMIC_ACQ_REL))
        return;
    __atomic_add_fetch(&record->references, 1, __ATOMIC_RELAXED);
    if (Py_AddPendingCall(tell_later, record) != 0) {
        __atomic_store_n(&record->pending, false, __ATOMIC_RELEASE);
        drop(record);
    }
}

/* ---- a limit ---- */

/* Waits for a callback on another thread, which may need the GIL. */
static int end_limit(struct record *record)
{
    int error;
    struct hf_limit *limit = __atomic_exchange_n(&record->limit, NULL, __ATOMIC_ACQ_REL);
    if (limit == NULL)
        return 0;
    pthread_mutex_lock(&record->lock);
    record->ended = true;
    pthread_cond_broadcast(&record->changed);
    pthread_mutex_unlock(&record->lock);
    Py_BEGIN_ALLOW_THREADS
    do
        error = hf_limit_end(limit);
    while (error == -EAGAIN);
    Py_END_ALLOW_THREADS
    return error;
}

static void end_capsule(PyObject *capsule)
{
    struct record *record = PyCapsule_GetPointer(capsule, limit_name);
    if (record == NULL)
        return;
    (void)end_limit(record);
    __atomic_store_n(&record->gone, true, __ATOMIC_RELEASE);
    drop(record);
}

static struct record *record_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, limit_name);
}

/* NULL, or one that another thread ends meanwhile, which its functions refuse. */
static struct hf_limit *limit_of(const struct record *record)
{
    return __atomic_load_n(&record->limit, __ATOMIC_ACQUIRE);
}

static PyObject *limit_begin(PyObject *module, PyObject *arguments)
{
    const char *path, *name;
    unsigned long long bytes;
    struct hf_limit_options options = {.size = sizeof options};
    PyObject *told;
    int error;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "yKIyO", &path, &bytes, &options.mode, &name, &told))
        return NULL;
    /* Pending calls are the main interpreter's, and a subinterpreter may have no daemon threads. */
    if (told != Py_None && PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "limit(): only the main interpreter has callbacks, on=\"warn\" and "
                        "on=\"trim\": call it there, for the whole process");
        return NULL;
    }
    struct record *record = calloc(1, sizeof *record);
    if (record == NULL)
        return PyErr_NoMemory();
    make_lock(record);
    record->references = 1;
    record->interpreter = PyInterpreterState_Get();
    options.name = name;
    if (told != Py_None) {
        Py_INCREF(told);
        record->told = told;
        options.callback = reached;
        options.context = record;
    }
    Py_BEGIN_ALLOW_THREADS
    error = hf_limit_begin(&record->limit, path, bytes, &options);
    Py_END_ALLOW_THREADS
    if (error != 0) {
        drop(record);
        return homefree_failed(error, remedies);
    }
    PyObject *capsule = PyCapsule_New(record, limit_name, end_capsule);
    if (capsule == NULL) {
        (void)end_limit(record);
        drop(record);
    }
    return capsule;
}

static PyObject *limit_add(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    const char *path;
    int error;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oy", &capsule, &path))
        return NULL;
    struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = hf_limit_add(limit_of(record), path);
    Py_END_ALLOW_THREADS
    return homefree_done(error, remedies);
}

static PyObject *limit_set(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    unsigned long long bytes;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OK", &capsule, &bytes))
        return NULL;
    const struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    return homefree_done(hf_limit_set(limit_of(record), bytes), remedies);
}

static PyObject *as_tuple(const struct hf_limit_state *state)
{
    return Py_BuildValue("(yKKKKKII)", state->name != NULL ? state->name : "",
                         (unsigned long long)state->limit, (unsigned long long)state->used,
                         (unsigned long long)state->peak, (unsigned long long)state->refused,
                         (unsigned long long)state->crossings, state->mode, state->objects);
}

static PyObject *limit_read(PyObject *module, PyObject *capsule)
{
    struct hf_limit_state state = {.size = sizeof state};
    (void)module;
    const struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    const int error = hf_limit_read(limit_of(record), &state);
    state.name = NULL; /* another thread may end the limit, which has it */
    return error != 0 ? homefree_failed(error, remedies) : as_tuple(&state);
}

static int add_state(void *context, const struct hf_limit_state *state)
{
    return homefree_append(context, as_tuple(state));
}

static PyObject *limits(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    (void)module;
    (void)unused;
    if (list != NULL && hf_limit_each(add_state, list) != 0 && PyErr_Occurred() != NULL)
        Py_CLEAR(list);
    return list;
}

static PyObject *limit_end(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    return homefree_done(end_limit(record), remedies);
}

/* ---- its own thread ---- */

static PyObject *limit_wait(PyObject *module, PyObject *capsule)
{
    uint64_t asked = 0;
    bool ended;
    (void)module;
    struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&record->lock);
    while (record->requests == record->answers && !record->ended)
        pthread_cond_wait(&record->changed, &record->lock);
    ended = record->ended;
    asked = record->request;
    pthread_mutex_unlock(&record->lock);
    Py_END_ALLOW_THREADS
    if (ended)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(asked);
}

static PyObject *limit_answer(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    pthread_mutex_lock(&record->lock);
    record->answers = record->requests;
    pthread_cond_broadcast(&record->changed);
    pthread_mutex_unlock(&record->lock);
    Py_RETURN_NONE;
}

/* The parent's threads are not here, and one may have had the lock. */
static PyObject *limit_in_child(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct record *record = record_of(capsule);
    if (record == NULL)
        return NULL;
    make_lock(record);
    record->answers = record->requests;
    Py_RETURN_NONE;
}

PyMethodDef homefree_limit_methods[] = {
    {"limit_begin", limit_begin, METH_VARARGS,
     "limit_begin(path, bytes, mode, name, told, /)\n--\n\nhf_limit_begin(): a capsule. Any "
     "thread."},
    {"limit_add", limit_add, METH_VARARGS,
     "limit_add(limit, path, /)\n--\n\nhf_limit_add(). Any thread."},
    {"limit_set", limit_set, METH_VARARGS,
     "limit_set(limit, bytes, /)\n--\n\nhf_limit_set(). Any thread."},
    {"limit_read", limit_read, METH_O,
     "limit_read(limit, /)\n--\n\nhf_limit_read(): (no name, limit, used, peak, refused, "
     "crossings, mode, objects). Any thread."},
    {"limits", limits, METH_NOARGS,
     "limits()\n--\n\nhf_limit_each(): a list of the same, with the names. Any "
     "thread."},
    {"limit_end", limit_end, METH_O, "limit_end(limit, /)\n--\n\nhf_limit_end(). Any thread."},
    {"limit_wait", limit_wait, METH_O,
     "limit_wait(limit, /)\n--\n\nWhat was asked for when the limit was reached; None once it has "
     "ended. One thread."},
    {"limit_answer", limit_answer, METH_O,
     "limit_answer(limit, /)\n--\n\nLets the thread that allocates go on. Any thread."},
    {"limit_in_child", limit_in_child, METH_O,
     "limit_in_child(limit, /)\n--\n\nIn a forked child, before limit_wait(). Any thread."},
    {NULL, NULL, 0, NULL},
};
