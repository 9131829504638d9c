/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the units of interpreters/ know of a group, an interpreter and a session. Each member says
 * what guards it.
 *
 * Locks: a group's lock and then an interpreter's. Nobody holds either while Python code runs or
 * while waiting for a GIL.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_INTERPRETER_H
#define HOMEFREE_SATELLITES_INTERPRETERS_INTERPRETER_H

#include "loader/host/cpython.h"
#include "satellites/interpreters/running.h"

#include <homefree/interpreters.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define HF_INTERPRETERS_MAX 1024

struct hf_interpreter_post {
    struct hf_interpreter_post *next;
    void (*run)(void *argument);
    void *argument;
};

struct hf_interpreter {
    struct hf_interpreters *group; /* NULL: the main interpreter, or a guest (guests.h) */
    unsigned index;
    unsigned generation; /* a guest's: of the process */
    /* Written by the owner thread before the interpreter is listed. */
    int64_t id;
    struct hf_py_interpreter *python;
    struct hf_py_thread *first; /* the owner thread's thread state */
    bool limited;               /* the owner thread's: it has a limit */
    unsigned long owner_thread; /* its thread, as CPython names it */

    /* Changed without a lock; see sessions.c. */
    atomic_uint sessions;
    atomic_int state; /* enum hf_interpreter_state */
    atomic_uint_fast64_t calls;
    atomic_uint_fast64_t posted; /* as many as are in the queue */
    /* References of the interpreter; NULL until they are needed. */
    _Atomic(struct hf_py_object *) memory_type; /* memory_object.c's */
    _Atomic(struct hf_py_object *) array_type;  /* value_memory.c's: numpy.ndarray */
    struct hf_running tended;                   /* what its owner thread runs there */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t wake;  /* for the owner thread */
    struct hf_interpreter_post *head, **tail;
    uint64_t held;
    struct hf_session *threads; /* the sessions that have a thread state */
    unsigned helpers;       /* threads at work in it for a moment; the interpreter waits for them */
    unsigned interruptions; /* of what runs in it, at its end */
    bool forsaken;          /* ends although others hold something of it */
    bool is_lost;           /* CPython does not know it any more; it never ends */
    bool finishing;         /* nothing may attach any more but the owner thread */
    bool has_owner_thread;
    struct hf_interpreter *next_listed; /* the registry's lock */
};

struct hf_interpreters {
    const struct hf_cpython_interpreters *py;
    int engine;
    struct hf_interpreter *shared; /* HF_ENGINE_THREADS: the main interpreter; else NULL */
    void (*naming_ends)(void);     /* naming.h; NULL: crashes are not named */
    unsigned generation;           /* of the process; a forked child has another */
    atomic_uint references; /* the handle's, each owner thread's, each session's, each helper's */
    atomic_bool ending;     /* no new sessions */
    atomic_bool is_being_ended; /* by one thread */
    atomic_uint waiting;        /* threads that wait for `changed` */
    atomic_uint next;           /* where the search for the least loaded begins */
    unsigned count;
    pthread_mutex_t lock;   /* guards nothing but sleeping on `changed` */
    pthread_cond_t changed; /* a session ended, or an interpreter's state changed */
    struct hf_interpreter interpreters[];
};

struct hf_session {
    struct hf_interpreter *interpreter;
    struct hf_py_thread *thread; /* its own; HF_ENGINE_THREADS, and before it is attached: NULL */
    struct hf_thread_record *owner;   /* the thread that attached it first */
    unsigned attachments;             /* on the owner's stack; only the owner looks */
    bool ended;                       /* hf_session_end() has been called: the owner deletes it */
    struct hf_session *next;          /* of the owner's */
    unsigned long number;             /* the owner, as CPython names it */
    atomic_bool running, interrupted; /* HF_ENGINE_THREADS; see hf_sessions_interrupt() */
    struct hf_session *next_thread, **link; /* of the interpreter's `threads`; its lock */
    struct hf_running runs;
};

/* The interpreter that has what is posted to this one, and counts what is held of it. */
static inline struct hf_interpreter *hf_interpreter_behind(struct hf_interpreter *interpreter)
{
    struct hf_interpreter *shared = interpreter->group->shared;
    return shared != NULL ? shared : interpreter;
}

/* Initialises what every interpreter has. */
void hf_interpreter_prepare(struct hf_interpreter *interpreter);

/* A group of prepared interpreters with one reference, or NULL. */
struct hf_interpreters *hf_group_new(unsigned count);

void hf_group_take(struct hf_interpreters *group);
void hf_group_drop(struct hf_interpreters *group);

/* Wakes whoever waits for a change in the group. */
void hf_group_changed(struct hf_interpreters *group);

/* Initialises a condition variable for hf_wait(). */
void hf_condition_prepare(pthread_cond_t *condition);

/* A time on the clock that condition variables here use. Negative: none. */
bool hf_deadline(struct timespec *out, int timeout_ms);

/* Waits on a condition variable of interpreters/, until a deadline or for as long as it takes
 * (NULL). Returns false when the time is up. */
bool hf_wait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *deadline);

#endif
