/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread knows of its sessions: which belong to it, and which it has attached over which.
 *
 * CPython binds a thread state to the thread that made it, and the variable by which
 * PyGILState_Ensure() finds it can be reset by that thread alone. So a session's thread state is
 * made, used and deleted by one thread, its owner. Without a GIL there is one interpreter, and all
 * sessions of a thread use the thread state that it has there; one that it did not have is made for
 * its first session and deleted when the thread ends, because making one takes 5 to 200 us.
 *
 * thread_states.c owns the key of the threads' records. Only a thread itself reads or changes its
 * record, but for `ended` of its sessions, which hf_session_end() sets from any thread.
 */
#ifndef HOMEFREE_SATELLITES_INTERPRETERS_THREAD_STATES_H
#define HOMEFREE_SATELLITES_INTERPRETERS_THREAD_STATES_H

#include "satellites/interpreters/interpreter.h"

/* A stack for signal handlers, so that a thread whose own stack has overflowed can still say where.
 */
struct hf_signal_stack {
    void *start; /* NULL: not made; what lies there is mapped */
    size_t size;
};

/* One attachment, which covers the one before. */
struct hf_attachment {
    struct hf_session *session;
    struct hf_py_thread *thread; /* the thread state that it is attached with */
    struct hf_py_thread *before; /* the thread state that was current; NULL: none */
};

struct hf_thread_record {
    unsigned generation;
    bool is_owner_thread;
    struct hf_session *sessions; /* that belong to this thread */
    struct hf_py_thread *aside;  /* sessions.c's; NULL: none */
    struct hf_py_thread *own;    /* made for this thread, HF_ENGINE_THREADS; NULL: none */
    unsigned era;                /* in which `own` was made */
    struct hf_running *running;  /* where the thread is now; NULL: in no interpreter */
    struct hf_running *tended;   /* an owner thread's own interpreter; NULL: another thread */
    struct hf_signal_stack signals;
    int64_t *entered; /* numbers of interpreters that it has had sessions of */
    size_t entered_count, entered_capacity;
    struct hf_attachment *stack;
    size_t depth, capacity;
    void *stack_start; /* the thread's own stack; NULL until it is known */
    size_t stack_bytes;
};

/* The calling thread's record, or NULL if it has none and `make` is false or there is no memory. */
struct hf_thread_record *hf_thread_record(bool make);

/* Says how the sessions of a thread end that ends itself. Called once, at the start. */
void hf_thread_states_start(void (*thread_ends_too)(struct hf_thread_record *record));

/* In a forked child: the calling thread has no sessions. */
void hf_thread_states_in_child(void);

/* The number of the time until the next hf_thread_states_expire(). */
unsigned hf_thread_states_era(void);

/* From now on, `own` of all records is CPython's alone, which is about to be finalized. */
void hf_thread_states_expire(void);

/* The calling thread, whose record that is, works there from now on; NULL: in no interpreter. */
void hf_thread_moves(struct hf_thread_record *record, struct hf_running *running);

/* The calling thread, whose record that is, begins a session of an interpreter. Returns whether it
 * is its first one there, as far as is known. */
bool hf_thread_enters(struct hf_thread_record *record, int64_t interpreter);

/* Gives the calling thread one, unless it has one already, of whoever's. */
void hf_signal_stack_give(struct hf_signal_stack *stack);

/* Tells diagnostics mode that an interpreter has ended. */
void hf_threads_ended(int64_t interpreter);

/* Makes a thread of homefree's, which leaves the host its signals: all are blocked but those of
 * faults, which would end the process without a word. Returns 0 or -EAGAIN. */
int hf_thread_make(void *(*run)(void *), void *argument);

/* A new thread state for the calling thread, whose record is given; NULL if there is no memory. */
struct hf_py_thread *hf_thread_state_new(const struct hf_cpython_interpreters *py,
                                         struct hf_thread_record *record,
                                         struct hf_py_interpreter *interpreter);

/* Detaches the calling thread from whatever it is attached to. Returns that, or NULL. */
struct hf_py_thread *hf_detach(const struct hf_cpython_interpreters *py);

/* Takes hf_detach() back. */
void hf_reattach(const struct hf_cpython_interpreters *py, struct hf_py_thread *thread);

#endif
