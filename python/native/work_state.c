/* SPDX-License-Identifier: BSD-2-Clause */
/* See work_state.h. */
#include "python/native/work_state.h"

#include <homefree/homefree.h>
#include <unistd.h>

static const char work_name[] = "homefree.work";

void homefree_work_hold(struct work *work)
{
    __atomic_fetch_add(&work->holders, 1, __ATOMIC_RELAXED);
}

void homefree_work_let_go(struct work *work)
{
    if (__atomic_sub_fetch(&work->holders, 1, __ATOMIC_ACQ_REL) != 0 || work->owner != getpid())
        return;
    homefree_items_drop(work->tasks.first);
    homefree_items_drop(work->results.first);
    homefree_index_close(&work->index);
    homefree_message_drop(work->setup);
    pthread_cond_destroy(&work->tasks.arrived);
    pthread_cond_destroy(&work->results.arrived);
    pthread_cond_destroy(&work->freed);
    pthread_mutex_destroy(&work->lock);
    hf_free(work);
}

static void drop_capsule(PyObject *capsule)
{
    homefree_work_let_go(PyCapsule_GetPointer(capsule, work_name));
}

struct work *homefree_work_of(PyObject *capsule)
{
    struct work *work = PyCapsule_GetPointer(capsule, work_name);
    if (work != NULL && work->owner != getpid()) {
        PyErr_SetString(PyExc_RuntimeError, "this process was forked from the one that has the "
                                            "interpreters; make an Executor of its own");
        return NULL;
    }
    return work;
}

PyObject *homefree_work_capsule(struct work *work)
{
    PyObject *capsule = PyCapsule_New(work, work_name, drop_capsule);
    if (capsule == NULL)
        homefree_work_let_go(work);
    return capsule;
}

void homefree_work_free_seat(struct work *work)
{
    work->seats++;
    pthread_cond_signal(&work->freed);
}

/* ---- workers ---- */

static _Thread_local struct worker *mine;

void homefree_worker_is_mine(struct worker *worker)
{
    mine = worker;
}

void homefree_worker_begins(const struct work *work, unsigned long long number)
{
    if (mine == NULL || mine->work != work)
        return;
    mine->number = number;
    if (number != 0)
        clock_gettime(CLOCK_MONOTONIC, &mine->since);
}

bool homefree_worker_is_given_up(const struct work *work)
{
    return mine != NULL && mine->work == work && mine->given_up;
}

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

/* A task that begins later ends later. */
struct timespec homefree_workers_first_end(const struct work *work, double seconds)
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

struct worker *homefree_worker_give_up(struct work *work, double seconds)
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
        homefree_work_free_seat(work);
        return worker;
    }
    return NULL;
}
