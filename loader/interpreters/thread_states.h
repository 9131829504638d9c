/*
 * What a thread knows of its sessions: which belong to it, and which it has attached over which.
 *
 * CPython binds a thread state to the thread that made it, and the variable by which
 * PyGILState_Ensure() finds it can be reset by that thread alone. So a session's thread state is
 * made, used and deleted by one thread, its owner.
 *
 * thread_states.c owns the key of the threads' records. Only a thread itself reads or changes its
 * record, but for `ended` of its sessions, which hf_session_end() sets from any thread.
 */
#ifndef HOMEFREE_THREAD_STATES_H
#define HOMEFREE_THREAD_STATES_H

#include "loader/interpreters/interpreter.h"

/* One attachment, which covers the one before. */
struct hf_attachment {
    struct hf_session *session;
    struct hf_py_thread *before; /* the thread state that was current; NULL: none */
};

struct hf_thread_record {
    unsigned generation;
    bool is_caretaker;
    struct hf_session *sessions; /* that belong to this thread */
    struct hf_py_thread *aside;  /* sessions.c's; NULL: none */
    struct hf_attachment *stack;
    size_t depth, room;
};

/* The calling thread's record, or NULL if it has none and `make` is false or there is no memory. */
struct hf_thread_record *hf_thread_record(bool make);

/* Says how the sessions of a thread end that ends itself. Called once, at the start. */
void hf_thread_states_start(void (*thread_ends_too)(struct hf_thread_record *record));

/* In a forked child: the calling thread has no sessions. */
void hf_thread_states_in_child(void);

/* Detaches the calling thread from whatever it is attached to. Returns that, or NULL. */
struct hf_py_thread *hf_detach(const struct hf_cpython_interpreters *py);

/* Takes hf_detach() back. */
void hf_reattach(const struct hf_cpython_interpreters *py, struct hf_py_thread *thread);

#endif
