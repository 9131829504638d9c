/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who works on an executor's queue (work_state.h): threads for the interpreters of the executor's
 * own, and the count of those that work in interpreters of others.
 *
 * Owns nothing: workers belong to their queue.
 */
#include "python/native/work_state.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

PyDoc_STRVAR(start_doc, "work_start(work, group, index, slot)\n--\n\n"
                        "Starts the thread on which an interpreter works; slot is its number for "
                        "work_overdue(), and for itself.");
PyDoc_STRVAR(expect_doc, "work_expect(work)\n--\n\n"
                         "Counts a worker on a thread of this interpreter; returns the queue's "
                         "address, which is valid until work_left().");
PyDoc_STRVAR(join_doc, "work_join(address)\n--\n\nThe queue at an address, as a capsule.");
PyDoc_STRVAR(left_doc, "work_left(work, why)\n--\n\n"
                       "Counts a worker out. why: None, or the text of what went wrong.");

/* ---- threads ---- */

/* Adds a result without a pickle. */
static void report(struct work *work, unsigned long long number, int outcome, const char *text)
{
    struct item *item = hf_calloc(1, sizeof *item + 1);
    if (item == NULL)
        return;
    *item = (struct item){
        .number = number, .outcome = outcome, .message = homefree_message_of_text(text)};
    if (item->message == NULL) {
        hf_free(item);
        return;
    }
    pthread_mutex_lock(&work->lock);
    homefree_list_add(&work->results, item);
    if (outcome == RETIRED)
        homefree_work_free_seat(work);
    pthread_mutex_unlock(&work->lock);
}

/* The text of what went wrong. The caller is attached if `error` is NULL: then the text is that of
 * the exception that is set. */
static void report_broken(struct work *work, const char *error)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL, *text = NULL;
    if (error == NULL) {
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        PyObject *name = type != NULL ? PyObject_GetAttrString(type, "__qualname__") : NULL;
        PyObject *line =
            name != NULL && value != NULL ? PyUnicode_FromFormat("%S: %S", name, value) : NULL;
        PyObject *bytes = line != NULL ? PyUnicode_AsUTF8String(line) : NULL;
        Py_XDECREF(line);
        Py_XDECREF(name);
        text = bytes;
        error = bytes != NULL ? PyBytes_AsString(bytes) : "its code could not be run";
    }
    report(work, 0, BROKEN, error);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* Counts a worker out, unless it was given up, and lets go of the queue; the last one also of what
 * workers begin with. worker: NULL for one that is on another's thread. */
static void leave(struct work *work, struct worker *worker)
{
    struct homefree_message *setup = NULL;
    pthread_mutex_lock(&work->lock);
    if (worker == NULL) {
        work->workers--;
    } else if (!worker->given_up) {
        struct worker **link = &work->running;
        while (*link != worker)
            link = &(*link)->next;
        *link = worker->next;
        work->workers--;
    }
    if (work->closed && work->workers == 0 && work->tasks.first == NULL) {
        setup = work->setup;
        work->setup = NULL;
    }
    pthread_cond_broadcast(&work->results.arrived);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
    homefree_message_drop(setup);
    hf_free(worker);
    homefree_work_let_go(work);
}

/* What debuggers and `top -H` call the calling thread, which is attached. */
static void name_thread(void)
{
    char name[16];
    snprintf(name, sizeof name, "interpreter %d",
             (int)PyInterpreterState_GetID(PyInterpreterState_Get()));
    (void)pthread_setname_np(pthread_self(), name);
}

/* Runs homefree.interpreters._inside.work(queue, slot) in the interpreter that this thread is
 * attached to, until the queue is closed. */
static void work_inside(struct worker *worker)
{
    name_thread();
    homefree_work_hold(worker->work);
    PyObject *capsule = homefree_work_capsule(worker->work);
    PyObject *inside =
        capsule != NULL ? PyImport_ImportModule("homefree.interpreters._inside") : NULL;
    PyObject *result =
        inside != NULL ? PyObject_CallMethod(inside, "work", "Oi", capsule, worker->slot) : NULL;
    pthread_mutex_lock(&worker->work->lock);
    const bool given_up = worker->given_up;
    pthread_mutex_unlock(&worker->work->lock);
    if (result == NULL && !given_up)
        report_broken(worker->work, NULL);
    worker->retires = result == Py_True && !given_up;
    PyErr_Clear();
    Py_XDECREF(result);
    Py_XDECREF(inside);
    Py_XDECREF(capsule);
}

/* The thread's end, in which what modules have in threads is destroyed, is waited for: until then
 * the interpreter stays. Modules' keys have their turn before the last one. */
static pthread_key_t farewell;
static bool has_farewell;

static void say_farewell(void *argument)
{
    struct worker *worker = argument;
    if (++worker->farewells < PTHREAD_DESTRUCTOR_ITERATIONS &&
        pthread_setspecific(farewell, worker) == 0)
        return;
    if (worker->retires)
        report(worker->work, (unsigned long long)worker->slot, RETIRED, "");
    leave(worker->work, worker);
}

static void prepare_farewell(void)
{
    has_farewell = pthread_key_create(&farewell, say_farewell) == 0;
}

static void *run_worker(void *argument)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct worker *worker = argument;
    struct work *work = worker->work;
    struct hf_session *session;
    homefree_worker_is_mine(worker);
    int error = hf_session_begin(&session, worker->group, worker->index, -1);
    if (error == 0) {
        error = hf_session_attach(session);
        if (error == 0) {
            (void)hf_session_name(session, "<initializer>");
            work_inside(worker);
            hf_session_detach(session);
        }
        hf_session_end(session);
    }
    if (error != 0)
        report_broken(work, strerror(-error));
    (void)pthread_once(&once, prepare_farewell);
    if (!has_farewell || pthread_setspecific(farewell, worker) != 0) {
        worker->farewells = PTHREAD_DESTRUCTOR_ITERATIONS;
        say_farewell(worker);
    }
    return NULL;
}

static PyObject *work_start(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *group;
    int index, slot;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOii:work_start", &capsule, &group, &index, &slot) ||
        (work = homefree_work_of(capsule)) == NULL)
        return NULL;
    void *pointer = PyCapsule_GetPointer(group, homefree_group_name);
    if (pointer == NULL)
        return NULL;
    struct worker *worker = hf_malloc(sizeof *worker);
    if (worker == NULL)
        return PyErr_NoMemory();
    *worker = (struct worker){.work = work, .group = pointer, .index = index, .slot = slot};
    homefree_work_hold(work);
    pthread_mutex_lock(&work->lock);
    worker->next = work->running;
    work->running = worker;
    work->workers++;
    pthread_mutex_unlock(&work->lock);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run_worker, worker);
    if (error == 0)
        pthread_detach(thread);
    else
        leave(work, worker);
    return homefree_done(-error, NULL);
}

/* ---- workers in interpreters of others ---- */

static PyObject *work_expect(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct work *work = homefree_work_of(capsule);
    if (work == NULL)
        return NULL;
    homefree_work_hold(work);
    pthread_mutex_lock(&work->lock);
    work->workers++;
    pthread_mutex_unlock(&work->lock);
    return PyLong_FromVoidPtr(work);
}

static PyObject *work_join(PyObject *module, PyObject *address)
{
    (void)module;
    struct work *work = PyLong_AsVoidPtr(address);
    if (work == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_ValueError, "work_join(): there is no queue at 0");
        return NULL;
    }
    homefree_work_hold(work);
    return homefree_work_capsule(work);
}

static PyObject *work_left(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    const char *why;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oz:work_left", &capsule, &why) ||
        (work = homefree_work_of(capsule)) == NULL)
        return NULL;
    if (why != NULL)
        report_broken(work, why);
    leave(work, NULL);
    Py_RETURN_NONE;
}

PyMethodDef homefree_worker_methods[] = {
    {"work_start", work_start, METH_VARARGS, start_doc},
    {"work_expect", work_expect, METH_O, expect_doc},
    {"work_join", work_join, METH_O, join_doc},
    {"work_left", work_left, METH_VARARGS, left_doc},
    {NULL, NULL, 0, NULL},
};
