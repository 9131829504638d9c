/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by work.c and work_threads.c only: an executor's queue, who holds it, and who works on it.
 *
 * A queue is plain memory, held by a count: each capsule of it and each worker's thread is a
 * holder. Its lock is a leaf: it is held for a few stores, and never while Python runs. Whoever
 * waits is detached. A forked child leaves the queues of its parent alone.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_WORK_STATE_H
#define HOMEFREE_PYTHON_NATIVE_WORK_STATE_H

#include "python/native/crossing.h"
#include "python/native/work_items.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

struct work {
    size_t holders;
    pid_t owner;                    /* the process; a forked child has only a copy */
    struct homefree_message *setup; /* what each worker begins with (_inside.py), until none can */
    pthread_mutex_t lock;
    struct list tasks, results;
    struct index index;     /* of the tasks */
    struct worker *running; /* with threads of their own */
    unsigned workers;       /* threads that have not ended */
    unsigned seats;         /* that are free; who waits for one is a spare */
    pthread_cond_t freed;   /* a seat, or those who wait need none any more */
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
    bool retires;       /* its thread's: it has done what it may */
    unsigned farewells; /* its thread's */
};

/* The outcomes of a worker that ended before its time, and of one that has done its share; see
 * _inside.py. */
enum { BROKEN = 2, RETIRED = 3 };

/* ---- the queue ---- */

void homefree_work_hold(struct work *work);
void homefree_work_let_go(struct work *work);

/* The queue of a capsule, if this process may use it; NULL with an exception set. */
struct work *homefree_work_of(PyObject *capsule);

/* A capsule, which takes over a hold; NULL with an exception set. */
PyObject *homefree_work_capsule(struct work *work);

/* Under the lock: one who waits for a seat may work. */
void homefree_work_free_seat(struct work *work);

/* ---- workers ---- */

/* The calling thread is this worker's. */
void homefree_worker_is_mine(struct worker *worker);

/* Under the lock: the calling thread's worker begins a task, or with 0 ends one. */
void homefree_worker_begins(const struct work *work, unsigned long long number);

/* Under the lock: whether the calling thread's worker was given up. */
bool homefree_worker_is_given_up(const struct work *work);

/* Under the lock: when the first task will have run for so long. */
struct timespec homefree_workers_first_end(const struct work *work, double seconds);

/* Under the lock: the first worker whose task has run for so long counts no longer; NULL: none. */
struct worker *homefree_worker_give_up(struct work *work, double seconds);

#endif
