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

#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

PyDoc_STRVAR(new_doc, "work_new(seats)\n--\n\n"
                      "A queue, as a capsule. seats: how many of those may work who work_sit().");
PyDoc_STRVAR(start_doc, "work_start(work, group, index, setup)\n--\n\n"
                        "Starts the thread on which an interpreter works; setup is bytes.");
PyDoc_STRVAR(expect_doc, "work_expect(work)\n--\n\n"
                         "Counts a worker on a thread of this interpreter; returns the queue's "
                         "address, which is valid until work_left().");
PyDoc_STRVAR(join_doc, "work_join(address)\n--\n\nThe queue at an address, as a capsule.");
PyDoc_STRVAR(left_doc, "work_left(work, why)\n--\n\n"
                       "Counts a worker out. why: None, or the text of what went wrong.");
PyDoc_STRVAR(taken_doc, "work_taken(work)\n--\n\n"
                        "The highest number of a task that a worker has taken.");
PyDoc_STRVAR(sit_doc, "work_sit(work)\n--\n\n"
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
             "work_collect(work)\n--\n\n"
             "All results that are there, at least one, which is waited for: a list of "
             "(number, outcome, pickle, buffers); None once all workers are gone.");
PyDoc_STRVAR(withdraw_doc, "work_withdraw(work, number)\n--\n\n"
                           "Removes a task that nobody has taken. False if there is none.");
PyDoc_STRVAR(clear_doc, "work_clear(work)\n--\n\n"
                        "Removes all tasks that nobody has taken: a list of their numbers.");
PyDoc_STRVAR(close_doc, "work_close(work)\n--\n\n"
                        "Accepts no further tasks; the workers end after those that are there.");

static const char work_name[] = "homefree.work";

struct item {
    struct item *next, *before;
    struct item *same; /* in the same bucket of the index */
    unsigned long long number;
    int outcome;
    struct homefree_message *message;
    char name[]; /* of a task, for hf_session_name() */
};

struct list {
    struct item *first, *last;
    pthread_cond_t arrived;
    unsigned waiting;
};

/* Finds a task by its number. Numbers follow each other, so the buckets are filled evenly. */
struct index {
    struct item **buckets;  /* `few`, or a block */
    size_t capacity, count; /* capacity: a power of two */
    struct item *few[64];
};

struct work {
    size_t holders;
    pid_t owner; /* the process; a forked child has only a copy */
    pthread_mutex_t lock;
    struct list tasks, results;
    struct index index;       /* of the tasks */
    unsigned workers;         /* threads that have not ended */
    unsigned seats;           /* that are free; who waits for one is a spare */
    pthread_cond_t freed;     /* a seat, or those who wait need none any more */
    unsigned long long taken; /* the highest number of a task that a worker has taken */
    bool closed;
};

/* ---- lists; the caller holds the lock ---- */

static void list_open(struct list *list)
{
    list->first = list->last = NULL;
    pthread_cond_init(&list->arrived, NULL);
    list->waiting = 0;
}

static void list_add(struct list *list, struct item *item)
{
    item->next = NULL;
    item->before = list->last;
    *(list->last != NULL ? &list->last->next : &list->first) = item;
    list->last = item;
    if (list->waiting != 0)
        pthread_cond_signal(&list->arrived);
}

static struct item *list_all(struct list *list)
{
    struct item *items = list->first;
    list->first = list->last = NULL;
    return items;
}

static void list_take(struct list *list, struct item *item)
{
    *(item->before != NULL ? &item->before->next : &list->first) = item->next;
    *(item->next != NULL ? &item->next->before : &list->last) = item->before;
    item->next = item->before = NULL;
}

static void list_wait(struct list *list, pthread_mutex_t *lock)
{
    list->waiting++;
    pthread_cond_wait(&list->arrived, lock);
    list->waiting--;
}

static void drop_items(struct item *items)
{
    while (items != NULL) {
        struct item *next = items->next;
        homefree_message_drop(items->message);
        hf_free(items);
        items = next;
    }
}

/* ---- the index; the caller holds the lock ---- */

static void index_open(struct index *index)
{
    index->buckets = index->few;
    index->capacity = sizeof index->few / sizeof index->few[0];
}

static void index_close(struct index *index)
{
    if (index->buckets != index->few)
        hf_free(index->buckets);
}

/* Links the tasks of a list to larger buckets. Without memory for them, chains are longer. */
static void index_grow(struct index *index, const struct list *tasks)
{
    struct item **buckets = hf_calloc(index->capacity * 4, sizeof *buckets);
    if (buckets == NULL)
        return;
    index_close(index);
    index->buckets = buckets;
    index->capacity *= 4;
    for (struct item *item = tasks->first; item != NULL; item = item->next) {
        struct item **bucket = &buckets[item->number & (index->capacity - 1)];
        item->same = *bucket;
        *bucket = item;
    }
}

static void add_task(struct work *work, struct item *item)
{
    if (work->index.count++ >= work->index.capacity)
        index_grow(&work->index, &work->tasks);
    struct item **link = &work->index.buckets[item->number & (work->index.capacity - 1)];
    item->same = *link;
    *link = item;
    list_add(&work->tasks, item);
}

/* Takes a task out of the queue; NULL if there is none with that number. */
static struct item *take_task(struct work *work, unsigned long long number)
{
    struct item **link = &work->index.buckets[number & (work->index.capacity - 1)];
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->same;
    struct item *item = *link;
    if (item == NULL)
        return NULL;
    *link = item->same;
    work->index.count--;
    list_take(&work->tasks, item);
    return item;
}

static struct item *take_all_tasks(struct work *work)
{
    memset(work->index.buckets, 0, work->index.capacity * sizeof(struct item *));
    work->index.count = 0;
    return list_all(&work->tasks);
}

/* ---- the queue ---- */

static void take_hold(struct work *work)
{
    __atomic_fetch_add(&work->holders, 1, __ATOMIC_RELAXED);
}

static void let_go(struct work *work)
{
    if (__atomic_sub_fetch(&work->holders, 1, __ATOMIC_ACQ_REL) != 0 || work->owner != getpid())
        return;
    drop_items(work->tasks.first);
    drop_items(work->results.first);
    index_close(&work->index);
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
    list_open(&work->tasks);
    list_open(&work->results);
    index_open(&work->index);
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
        add_task(work, item);
    pthread_mutex_unlock(&work->lock);
    if (closed)
        drop_items(item);
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
    take_task(work, item->number);
    if (item->number > work->taken)
        __atomic_store_n(&work->taken, item->number, __ATOMIC_RELAXED);
    return item;
}

static PyObject *work_take(PyObject *module, PyObject *capsule)
{
    struct work *work = work_of(capsule);
    if (work == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    struct item *item = next_task(work);
    const bool ended = item == NULL && work->closed;
    pthread_mutex_unlock(&work->lock);
    if (item == NULL && !ended) {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&work->lock);
        while ((item = next_task(work)) == NULL && !work->closed)
            list_wait(&work->tasks, &work->lock);
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
    list_add(&work->results, item);
    if (outcome == RETIRED) {
        work->seats++;
        pthread_cond_signal(&work->freed);
    }
    pthread_mutex_unlock(&work->lock);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *work_collect(PyObject *module, PyObject *capsule)
{
    struct work *work = work_of(capsule);
    struct item *items;
    if (work == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&work->lock);
    while ((items = list_all(&work->results)) == NULL && (work->workers != 0 || !work->closed))
        list_wait(&work->results, &work->lock);
    pthread_mutex_unlock(&work->lock);
    Py_END_ALLOW_THREADS
    if (items == NULL) {
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
    drop_items(items);
    return list;
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
    struct item *item = take_task(work, number);
    pthread_mutex_unlock(&work->lock);
    drop_items(item);
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
    struct item *items = take_all_tasks(work);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
    for (struct item *item = items; item != NULL && numbers != NULL; item = item->next) {
        PyObject *number = PyLong_FromUnsignedLongLong(item->number);
        if (number == NULL || PyList_Append(numbers, number) != 0)
            Py_CLEAR(numbers);
        Py_XDECREF(number);
    }
    drop_items(items);
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

struct worker {
    struct work *work;
    struct hf_interpreters *group;
    int index;
    Py_ssize_t size;
    char setup[]; /* a pickle */
};

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
            list_add(&work->results, item);
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

/* Counts a worker out, and lets go of the queue. */
static void leave(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->workers--;
    pthread_cond_broadcast(&work->results.arrived);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
    let_go(work);
}

/* Runs homefree.interpreters._inside.work(queue, setup) in the interpreter that this thread is
 * attached to, until the queue is closed. */
static void work_inside(const struct worker *worker)
{
    take_hold(worker->work);
    PyObject *capsule = capsule_of(worker->work);
    PyObject *inside =
        capsule != NULL ? PyImport_ImportModule("homefree.interpreters._inside") : NULL;
    PyObject *result = inside != NULL ? PyObject_CallMethod(inside, "work", "Oy#", capsule,
                                                            worker->setup, worker->size)
                                      : NULL;
    if (result == NULL)
        report_broken(worker->work, NULL);
    Py_XDECREF(result);
    Py_XDECREF(inside);
    Py_XDECREF(capsule);
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
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
    hf_free(worker);
    leave(work);
    return NULL;
}

static PyObject *work_start(PyObject *module, PyObject *arguments)
{
    PyObject *capsule, *group;
    const char *setup;
    Py_ssize_t size;
    int index;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOiy#:work_start", &capsule, &group, &index, &setup, &size) ||
        (work = work_of(capsule)) == NULL)
        return NULL;
    void *pointer = PyCapsule_GetPointer(group, homefree_group_name);
    if (pointer == NULL)
        return NULL;
    struct worker *worker = hf_malloc(sizeof *worker + (size_t)size);
    if (worker == NULL)
        return PyErr_NoMemory();
    *worker = (struct worker){work, pointer, index, size};
    memcpy(worker->setup, setup, (size_t)size);
    take_hold(work);
    pthread_mutex_lock(&work->lock);
    work->workers++;
    pthread_mutex_unlock(&work->lock);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run_worker, worker);
    if (error == 0) {
        pthread_detach(thread);
        Py_INCREF(Py_None);
        return Py_None;
    }
    leave(work);
    hf_free(worker);
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
    leave(work);
    Py_INCREF(Py_None);
    return Py_None;
}

static PyObject *work_taken(PyObject *module, PyObject *capsule)
{
    (void)module;
    const struct work *work = PyCapsule_GetPointer(capsule, work_name);
    if (work == NULL)
        return NULL;
    return PyLong_FromUnsignedLongLong(__atomic_load_n(&work->taken, __ATOMIC_RELAXED));
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
    {"work_collect", work_collect, METH_O, collect_doc},
    {"work_taken", work_taken, METH_O, taken_doc},
    {"work_withdraw", work_withdraw, METH_VARARGS, withdraw_doc},
    {"work_clear", work_clear, METH_O, clear_doc},
    {"work_close", work_close, METH_O, close_doc},
    {NULL, NULL, 0, NULL},
};
