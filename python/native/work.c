/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the extension for homefree.interpreters.Executor: the queue through which an executor
 * and its interpreters exchange messages (crossing.h). work_state.h says who holds it and what
 * locks it.
 */
#include "python/native/work_state.h"

#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <string.h>
#include <unistd.h>

PyDoc_STRVAR(new_doc, "work_new(seats, pickle, buffers)\n--\n\n"
                      "A queue, as a capsule. seats: how many of those may work who work_sit(). "
                      "The rest is for work_setup().");
PyDoc_STRVAR(setup_doc, "work_setup(work)\n--\n\n"
                        "What each worker begins with: (pickle, buffers).");
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

/* ---- the queue ---- */

static PyObject *work_new(PyObject *module, PyObject *arguments)
{
    unsigned seats;
    PyObject *pickle, *buffers;
    if (!PyArg_ParseTuple(arguments, "IOO:work_new", &seats, &pickle, &buffers))
        return NULL;
    struct homefree_message *setup = homefree_message_new(module, pickle, buffers);
    if (setup == NULL)
        return NULL;
    struct work *work = hf_calloc(1, sizeof *work);
    if (work == NULL) {
        homefree_message_drop(setup);
        return PyErr_NoMemory();
    }
    work->holders = 1;
    work->setup = setup;
    work->seats = seats;
    pthread_cond_init(&work->freed, NULL);
    work->owner = getpid();
    pthread_mutex_init(&work->lock, NULL);
    homefree_list_open(&work->tasks);
    homefree_list_open(&work->results);
    homefree_index_open(&work->index);
    return homefree_work_capsule(work);
}

static PyObject *work_setup(PyObject *module, PyObject *capsule)
{
    struct work *work = homefree_work_of(capsule);
    if (work == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    struct homefree_message *copy = work->setup != NULL ? homefree_message_copy(work->setup) : NULL;
    pthread_mutex_unlock(&work->lock);
    return copy != NULL ? homefree_message_open(module, copy) : PyErr_NoMemory();
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
        (work = homefree_work_of(capsule)) == NULL)
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

static PyObject *work_sit(PyObject *module, PyObject *capsule)
{
    struct work *work = homefree_work_of(capsule);
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
    homefree_worker_begins(work, item->number);
    return item;
}

static PyObject *work_take(PyObject *module, PyObject *capsule)
{
    struct work *work = homefree_work_of(capsule);
    if (work == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool given_up = homefree_worker_is_given_up(work);
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
    if (item == NULL)
        Py_RETURN_NONE;
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
        (work = homefree_work_of(capsule)) == NULL)
        return NULL;
    struct item *item = item_new(module, number, outcome, "", pickle, buffers);
    if (item == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool given_up = homefree_worker_is_given_up(work);
    if (!given_up) {
        homefree_worker_begins(work, 0);
        homefree_list_add(&work->results, item);
    }
    pthread_mutex_unlock(&work->lock);
    if (given_up)
        homefree_items_drop(item);
    Py_RETURN_NONE;
}

static PyObject *work_overdue(PyObject *module, PyObject *arguments)
{
    PyObject *capsule;
    double seconds;
    struct work *work;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Od:work_overdue", &capsule, &seconds) ||
        (work = homefree_work_of(capsule)) == NULL)
        return NULL;
    PyObject *list = PyList_New(0);
    for (bool more = true; list != NULL && more;) {
        int slot = 0;
        unsigned long long number = 0;
        pthread_mutex_lock(&work->lock);
        const struct worker *worker = homefree_worker_give_up(work, seconds);
        more = worker != NULL;
        if (more) {
            slot = worker->slot;
            number = worker->number;
        }
        pthread_mutex_unlock(&work->lock);
        if (more && homefree_append(list, Py_BuildValue("iK", slot, number)) != 0)
            Py_CLEAR(list);
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
        (work = homefree_work_of(capsule)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&work->lock);
    while ((items = homefree_list_all(&work->results)) == NULL && in_time &&
           !(ended = work->workers == 0 && work->closed)) {
        struct timespec until = {0};
        if (seconds > 0)
            until = homefree_workers_first_end(work, seconds);
        in_time = homefree_list_wait(&work->results, &work->lock, seconds > 0 ? &until : NULL);
    }
    pthread_mutex_unlock(&work->lock);
    Py_END_ALLOW_THREADS
    if (ended)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(0);
    while (list != NULL && items != NULL) {
        struct item *item = items;
        items = item->next;
        if (homefree_append(list, opened(module, item, true)) != 0)
            Py_CLEAR(list);
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
        (work = homefree_work_of(capsule)) == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    const bool waits =
        number != 0 ? homefree_index_has(&work->index, number) : work->tasks.first != NULL;
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
        (work = homefree_work_of(capsule)) == NULL)
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
    struct work *work = homefree_work_of(capsule);
    PyObject *numbers = work != NULL ? PyList_New(0) : NULL;
    if (numbers == NULL)
        return NULL;
    pthread_mutex_lock(&work->lock);
    struct item *items = homefree_index_clear(&work->index, &work->tasks);
    pthread_cond_broadcast(&work->freed);
    pthread_mutex_unlock(&work->lock);
    for (struct item *item = items; item != NULL && numbers != NULL; item = item->next)
        if (homefree_append(numbers, PyLong_FromUnsignedLongLong(item->number)) != 0)
            Py_CLEAR(numbers);
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
    struct work *work = homefree_work_of(capsule);
    if (work == NULL)
        return NULL;
    close_work(work);
    Py_RETURN_NONE;
}

PyMethodDef homefree_work_methods[] = {
    {"work_new", work_new, METH_VARARGS, new_doc},
    {"work_setup", work_setup, METH_O, setup_doc},
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
