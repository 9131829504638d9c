/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for homefree.interpreters.Executor: the queue through which an executor
 * and its interpreters exchange messages (crossing.h), and the threads that the interpreters work
 * on.
 *
 * A queue is plain memory, held by a count: each capsule of it and each worker's thread is a
 * holder. Its lock is a leaf: it is held for a few stores, and never while Python runs. Whoever
 * waits is detached. A forked child leaves the queues of its parent alone.
 */
#include "python/native/crossing.h"
#include "python/native/work_items.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

PyDoc_STRVAR(new_doc, "work_new(seats)\n--\n\n"
                      "A queue, as a capsule. seats: how many of those may work who work_sit().");
PyDoc_STRVAR(start_doc, "work_start(work, group, index, slot, setup)\n--\n\n"
                        "Starts the thread on which an interpreter works; setup is bytes, and slot "
                        "a number for work_overdue().");
PyDoc_STRVAR(expect_doc, "work_expect(work)\n--\n\n"
                         "Counts a worker on a thread of this interpreter; returns the queue's "
                         "address, which is valid until work_left().");
PyDoc_STRVAR(join_doc, "work_join(address)\n--\n\nThe queue at an address, as a capsule.");
PyDoc_STRVAR(left_doc, "work_left(work, why)\n--\n\n"
                       "Counts a worker out. why: None, or the text of what went wrong.");
PyDoc_STRVAR(waits_doc, "work_waits(work, number)\n--\n\n"
                        "Whether there is a task of that number, or with 0 any, that nobody has "
                        "taken.");
PyDoc_STRVAR(sit_doc,
             "work_sit(work)\n--\n\n"
             "Waits for a seat, which a worker has until it has retired. False if there is "
             "nothing more to do.");
PyDoc_STRVAR(put_doc, "work_put(work, number, name, pickle, buffers)\n--\n\n"
                      "Adds a task. False if the queue is closed.");
PyDoc_STRVAR(take_doc,
             "work_take(work)\n--\n\n"
             "The next task, as (number, pickle, buffers), which is waited for; None once "
             "the queue is closed and empty.");
PyDoc_STRVAR(give_doc, "work_give(work, number, outcome, pickle, buffers)\n--\n\nAdds a result.");
PyDoc_STRVAR(collect_doc,
             "work_collect(work, seconds)\n--\n\n"
             "All results that are there, at least one, which is waited for: a list of "
             "(number, outcome, pickle, buffers); None once all workers are gone. Empty if a task "
             "has run for so long, if that is not 0.");
PyDoc_STRVAR(overdue_doc, "work_overdue(work, seconds)\n--\n\n"
                          "Gives up the workers whose tasks have run for so long, and which take "
                          "no other one: a list of (slot, number).");
PyDoc_STRVAR(withdraw_doc, "work_withdraw(work, number)\n--\n\n"
                           "Removes a task that nobody has taken. False if there is none.");
PyDoc_STRVAR(clear_doc, "work_clear(work)\n--\n\n"
                        "Removes all tasks that nobody has taken: a list of their numbers.");
PyDoc_STRVAR(close_doc, "work_close(work)\n--\n\n"
                        "Accepts no further tasks; the workers end after those that are there.");

static const char work_name[] = "homefree.work";

struct work {
    size_t holders;
    pid_t owner; /* the process; a forked child has only a copy */
    pthread_mutex_t lock;
    struct list tasks, results;
    struct index index;       /* of the tasks */
    struct worker *running;   /* with threads of their own */
    unsigned workers;         /* threads that have not ended */
    unsigned seats;           /* that are free; who waits for one is a spare */
    pthread_cond_t freed;     /* a seat, or those who wait need none any more */
    bool closed;
};

/* The queue's lock guards what changes. */
struct worker {
    struct work *work;
    struct worker *next;
    struct hf_interpreters *group;
    int index, slot;
    unsigned long long number; /* of its task; 0: none */
    struct timespec since;
    bool given_up;
    Py_ssize_t size;
    char setup[]; /* a pickle */
};
static _Thread_local struct worker *mine;

/* ---- the queue ---- */

static void take_hold(struct work *work)
{
    __atomic_fetch_add(&work->holders, 1, __ATOMIC_RELAXED);
}

static void let_go(struct work *work)
{
    if (__atomic_sub_fetch(&work->holders, 1, __ATOMIC_ACQ_REL) != 0 || work->owner != getpid())
        return;
    homefree_items_drop(work->tasks.first);
    homefree_items_drop(work->results.first);
    homefree_index_close(&work->index);
    pthread_cond_destroy(&work->tasks.arrived);
    pthread_cond_destroy(&work->results.arrived);
    pthread_cond_destroy(&work->freed);
    pthread_mutex_destroy(&work->lock);
    hf_free(work);
}

static void drop_capsule(PyObject *capsule)
{
    let_go(PyCapsule_GetPointer(capsule, work_name));
}

/* The queue of a capsule, if this process may use it; NULL with an exception set. */
static struct work *work_of(PyObject *capsule)
{
    struct work *work = PyCapsule_GetPointer(capsule, work_name);
    if (work != NULL && work->owner != getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "this process was forked from the one that has the "
                                            "interpreters; make an Executor of its own");
        return NULL;
    }
    return work;
}

static PyObject *capsule_of(struct work *work)
{
    PyObject *capsule = PyCapsule_New(work, work_name, drop_capsule);
    if (capsule == NULL)
        let_go(work);
    return capsule;
}

static PyObject *work_new(PyObject *module, PyObject *number)
{
    (void)module;
    const unsigned long seats = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() != NULL)
        return NULL;
    struct work *work = hf_calloc(1, sizeof *work);
    if (work == NULL)
        return PyErr_NoMemory();
    work->holders = 1;
    work->seats = (unsigned)seats;
    pthread_cond_init(&work->freed, NULL);
    work->owner = getpid();
    pthread_mutex_init(&work->lock, NULL);
    homefree_list_open(&work->tasks);
    homefree_list_open(&work->results);
    homefree_index_open(&work->index);
    return capsule_of(work);
}

/* ---- tasks and results ---- */

/* An item with a message; NULL with an exception set. */
static struct item *item_new(PyObject *module, unsigned long long number, int outcome,
                             const char *name, PyObject *pickle, PyObject *buffers)
{
    const size_t capacity = strlen(name) + 1;
    struct item *item = hf_malloc(sizeof *item + capacity);
    if (item == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *item = (struct item){.number = number,
                          .outcome = outcome,
                          .message = homefree_message_new(module, pickle, buffers)};
    memcpy(item->name, name, capacity);
    if (item->message != NULL)
        return item;
    hf_free(item);
    return NULL;
}

/* The values of an item, which is used up. */
static PyObject *opened(PyObject *module, struct item *item, bool with_outcome)
{
    const unsigned long long number = item->number;
    const int outcome = item->outcome;
    PyObject *parts = homefree_message_open(module, item->message);
    hf_free(item);
    if (parts == NULL)
        return NULL;
    PyObject *pickle = PyTuple_GetItem(parts, 0), *buffers = PyTuple_GetItem(parts, 1);
    PyObject *result = with_outcome ? Py_BuildValue("KiOO", number, outcome, pickle, buffers)
                                    : Py_BuildValue("KOO", number, pickle, buffers);
    Py_DECREF(parts);
    return result;
}

static PyObject *work_put(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *pickle, *buffers;
    unsigned long long number;
    const char *name;
    struct work *work;
    if (!PyArg_ParseTuple(arguments, "OKsOO:work_put", &capsule, &number, &name, &pickle,
                          &buffers) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    struct item *item = item_new(module, number, 0, name, pickle, buffers);
    if (item == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool closed = work->closed;
    if (!closed)
        homefree_index_add(&work->index, &work->tasks, item);
    pthread_mutex_unlock(&work->lock);
    if (closed)
        homefree_items_drop(item);
    return PyBool_FromLong(!closed);
}

/* The outcomes of a worker that ended before its time, and of one that has done its share; see
 * _inside.py. */
enum { BROKEN = 2, RETIRED = 3 };

static PyObject *work_sit(PyObject *module, PyObject *capsule)
{
    struct work *work = work_of(capsule);
    bool sits;
    (void)module;
    if (work == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&work->lock);
    while (work->seats == 0 && !(work->closed && work->tasks.first == NULL))
        pthread_cond_wait(&work->freed, &work->lock);
    sits = work->seats != 0;
    work->seats -= sits;
    pthread_mutex_unlock(&work->lock);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(sits);
}

/* The caller holds the lock. */
static struct item *next_task(struct work *work)
{
    struct item *item = work->tasks.first;
    if (item == NULL)
        return NULL;
    homefree_index_take(&work->index, &work->tasks, item->number);
    if (mine != NULL && mine->work == work) {
        mine->number = item->number;
        clock_gettime(CLOCK_MONOTONIC, &mine->since);
    }
    return item;
}

/* Under the lock: one who waits for a seat may work. */
static void free_seat(struct work *work)
{
    work->seats++;
    pthread_cond_signal(&work->freed);
}

static bool is_given_up(const struct work *work)
{
    return mine != NULL && mine->work == work && mine->given_up;
}

static PyObject *work_take(PyObject *module, PyObject *capsule)
{
    struct work *work = work_of(capsule);
    if (work == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool given_up = is_given_up(work);
    struct item *item = given_up ? NULL : next_task(work);
    const bool ended = given_up || (item == NULL && work->closed);
    pthread_mutex_unlock(&work->lock);
    if (item == NULL && !ended) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&work->lock);
        while ((item = next_task(work)) == NULL && !work->closed)
            (void)homefree_list_wait(&work->tasks, &work->lock, NULL);
        pthread_mutex_unlock(&work->lock);
        Py_END_ALLOW_THREADS
    }
    /* A task that runs outside of an executor's thread has no session; then this does nothing. */
    (void)hf_session_name(NULL, item != NULL ? item->name : NULL);
    if (item == NULL) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    return opened(module, item, false);
}

static PyObject *work_give(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *pickle, *buffers;
    unsigned long long number;
    int outcome;
    struct work *work;
    if (!PyArg_ParseTuple(arguments, "OKiOO:work_give", &capsule, &number, &outcome, &pickle,
                          &buffers) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    struct item *item = item_new(module, number, outcome, "", pickle, buffers);
    if (item == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool given_up = is_given_up(work);
    if (!given_up) {
        if (mine != NULL && mine->work == work)
            mine->number = 0;
        homefree_list_add(&work->results, item);
        if (outcome == RETIRED)
            free_seat(work);
    }
    pthread_mutex_unlock(&work->lock);
    if (given_up)
        homefree_items_drop(item);
    Py_INCREF(Py_None);
    return Py_None;
}

/* ---- time ---- */

static struct timespec later(struct timespec from, double seconds)
{
    enum { SECOND = 1000000000 };
    const long whole = (long)seconds;
    from.tv_sec += whole;
    from.tv_nsec += (long)((seconds - (double)whole) * SECOND);
    if (from.tv_nsec >= SECOND) {
        from.tv_sec++;
        from.tv_nsec -= SECOND;
    }
    return from;
}

static bool is_before(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec != other->tv_sec ? one->tv_sec < other->tv_sec
                                        : one->tv_nsec < other->tv_nsec;
}

/* When the first task will have run for so long; one that begins later ends later. Under the lock.
 */
static struct timespec first_end(const struct work *work, double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct timespec first = later(now, seconds);
    for (const struct worker *worker = work->running; worker != NULL; worker = worker->next) {
        const struct timespec end = later(worker->since, seconds);
        if (worker->number != 0 && is_before(&end, &first))
            first = end;
    }
    return first;
}

/* Under the lock: the first worker whose task has run for so long counts no longer. */
static struct worker *give_up(struct work *work, double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (struct worker **link = &work->running; *link != NULL; link = &(*link)->next) {
        struct worker *worker = *link;
        const struct timespec end = later(worker->since, seconds);
        if (worker->number == 0 || is_before(&now, &end))
            continue;
        *link = worker->next;
        worker->given_up = true;
        work->workers--;
        free_seat(work);
        return worker;
    }
    return NULL;
}

static PyObject *work_overdue(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    double seconds;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Od:work_overdue", &capsule, &seconds) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    PyObject *list = PyList_New(0);
    for (bool more = true; list != NULL && more;) {
        int slot = 0;
        unsigned long long number = 0;
        pthread_mutex_lock(&work->lock);
        const struct worker *worker = give_up(work, seconds);
        more = worker != NULL;
        if (more) {
            slot = worker->slot;
            number = worker->number;
        }
        pthread_mutex_unlock(&work->lock);
        PyObject *row = more ? Py_BuildValue("iK", slot, number) : NULL;
        if (more && (row == NULL || PyList_Append(list, row) != 0))
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *work_collect(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    double seconds;
    struct work *work;
    struct item *items;
    bool ended = false, in_time = true;
    if (!PyArg_ParseTuple(arguments, "Od:work_collect", &capsule, &seconds) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&work->lock);
    while ((items = homefree_list_all(&work->results)) == NULL && in_time &&
           !(ended = work->workers == 0 && work->closed)) {
        struct timespec until = {0};
        if (seconds > 0)
            until = first_end(work, seconds);
        in_time = homefree_list_wait(&work->results, &work->lock, seconds > 0 ? &until : NULL);
    }
    pthread_mutex_unlock(&work->lock);
    Py_END_ALLOW_THREADS
    if (ended) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    PyObject *list = PyList_New(0);
    while (list != NULL && items != NULL) {
        struct item *item = items;
        items = item->next;
        PyObject *values = opened(module, item, true);
        if (values == NULL || PyList_Append(list, values) != 0)
            Py_CLEAR(list);
        Py_XDECREF(values);
    }
    homefree_items_drop(items);
    return list;
}

static PyObject *work_waits(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    unsigned long long number;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OK:work_waits", &capsule, &number) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool waits = number != 0 ? homefree_index_has(&work->index, number)
                                   : work->tasks.first != NULL;
    pthread_mutex_unlock(&work->lock);
    return PyBool_FromLong(waits);
}

static PyObject *work_withdraw(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    unsigned long long number;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OK:work_withdraw", &capsule, &number) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    struct item *item = homefree_index_take(&work->index, &work->tasks, number);
    pthread_mutex_unlock(&work->lock);
    homefree_items_drop(item);
    return PyBool_FromLong(item != NULL);
}

static PyObject *work_clear(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct work *work = work_of(capsule);
    PyObject *numbers = work != NULL ? PyList_New(0) : NULL;
    if (numbers == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    struct item *items = homefree_index_clear(&work->index, &work->tasks);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
    for (struct item *item = items; item != NULL && numbers != NULL; item = item->next) {
        PyObject *number = PyLong_FromUnsignedLongLong(item->number);
        if (number == NULL || PyList_Append(numbers, number) != 0)
            Py_CLEAR(numbers);
        Py_XDECREF(number);
    }
    homefree_items_drop(items);
    return numbers;
}

static void close_work(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->closed = true;
    pthread_cond_broadcast(&work->tasks.arrived);
    pthread_cond_broadcast(&work->results.arrived);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
}

static PyObject *work_close(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct work *work = work_of(capsule);
    if (work == NULL)
        return NULL;
    close_work(work);
    Py_INCREF(Py_None);
    return Py_None;
}

/* ---- the workers ---- */

/* Adds a result without a pickle: the text of what went wrong. The caller is attached if `error` is
 * NULL: then the text is that of the exception that is set. */
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
    struct item *item = hf_calloc(1, sizeof *item + 1);
    if (item != NULL) {
        *item = (struct item){.outcome = BROKEN, .message = homefree_message_of_text(error)};
        if (item->message != NULL) {
            pthread_mutex_lock(&work->lock);
            homefree_list_add(&work->results, item);
            pthread_mutex_unlock(&work->lock);
        } else {
            hf_free(item);
        }
    }
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* Counts a worker out, unless it was given up, and lets go of the queue. worker: NULL for one that
 * is on another's thread. */
static void leave(struct work *work, struct worker *worker)
{
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
    pthread_cond_broadcast(&work->results.arrived);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
    hf_free(worker);
    let_go(work);
}

/* What debuggers and `top -H` call the calling thread, which is attached. */
static void name_thread(void)
{
    char name[16];
    snprintf(name, sizeof name, "interpreter %d",
             (int)PyInterpreterState_GetID(PyInterpreterState_Get()));
    (void)pthread_setname_np(pthread_self(), name);
}

/* Runs homefree.interpreters._inside.work(queue, setup) in the interpreter that this thread is
 * attached to, until the queue is closed. */
static void work_inside(const struct worker *worker)
{
    name_thread();
    take_hold(worker->work);
    PyObject *capsule = capsule_of(worker->work);
    PyObject *inside =
        capsule != NULL ? PyImport_ImportModule("homefree.interpreters._inside") : NULL;
    PyObject *result = inside != NULL ? PyObject_CallMethod(inside, "work", "Oy#", capsule,
                                                            worker->setup, worker->size)
                                      : NULL;
    pthread_mutex_lock(&worker->work->lock);
    const bool given_up = worker->given_up;
    pthread_mutex_unlock(&worker->work->lock);
    if (result == NULL && !given_up)
        report_broken(worker->work, NULL);
    PyErr_Clear();
    Py_XDECREF(result);
    Py_XDECREF(inside);
    Py_XDECREF(capsule);
}

static void *run_worker(void *argument)
{
    struct worker *worker = mine = argument;
    struct work *work = worker->work;
    struct hf_session *session;
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
    leave(work, worker);
    return NULL;
}

static PyObject *work_start(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *group;
    const char *setup;
    Py_ssize_t size;
    int index, slot;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOiiy#:work_start", &capsule, &group, &index, &slot, &setup,
                          &size) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    void *pointer = PyCapsule_GetPointer(group, homefree_group_name);
    if (pointer == NULL)
        return NULL;
    struct worker *worker = hf_malloc(sizeof *worker + (size_t)size);
    if (worker == NULL)
        return PyErr_NoMemory();
    *worker =
        (struct worker){.work = work, .group = pointer, .index = index, .slot = slot, .size = size};
    memcpy(worker->setup, setup, (size_t)size);
    take_hold(work);
    pthread_mutex_lock(&work->lock);
    worker->next = work->running;
    work->running = worker;
    work->workers++;
    pthread_mutex_unlock(&work->lock);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run_worker, worker);
    if (error == 0) {
        pthread_detach(thread);
        Py_INCREF(Py_None);
        return Py_None;
    }
    leave(work, worker);
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* ---- workers in interpreters of others ---- */

static PyObject *work_expect(PyObject *module, PyObject *capsule)
{
    (void)module;
    struct work *work = work_of(capsule);
    if (work == NULL)
        return NULL;
    take_hold(work);
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
    take_hold(work);
    return capsule_of(work);
}

static PyObject *work_left(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    const char *why;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Oz:work_left", &capsule, &why) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    if (why != NULL)
        report_broken(work, why);
    leave(work, NULL);
    Py_INCREF(Py_None);
    return Py_None;
}

PyMethodDef homefree_work_methods[] = {
    {"work_new", work_new, METH_O, new_doc},
    {"work_start", work_start, METH_VARARGS, start_doc},
    {"work_expect", work_expect, METH_O, expect_doc},
    {"work_join", work_join, METH_O, join_doc},
    {"work_left", work_left, METH_VARARGS, left_doc},
    {"work_sit", work_sit, METH_O, sit_doc},
    {"work_put", work_put, METH_VARARGS, put_doc},
    {"work_take", work_take, METH_O, take_doc},
    {"work_give", work_give, METH_VARARGS, give_doc},
    {"work_collect", work_collect, METH_VARARGS, collect_doc},
    {"work_overdue", work_overdue, METH_VARARGS, overdue_doc},
    {"work_waits", work_waits, METH_VARARGS, waits_doc},
    {"work_withdraw", work_withdraw, METH_VARARGS, withdraw_doc},
    {"work_clear", work_clear, METH_O, clear_doc},
    {"work_close", work_close, METH_O, close_doc},
    {NULL, NULL, 0, NULL},
};
