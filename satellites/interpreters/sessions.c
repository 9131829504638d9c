/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns no state but that of the sessions, and the thread state of each thread without a GIL that
 * had none (thread_states.h).
 *
 * A session counts in its interpreter from before the state is looked at to after its thread state
 * is deleted. Who ends an interpreter sets its state first and then waits for the count to become
 * 0, so that either the new session sees the state, or the count is seen (both are sequentially
 * consistent).
 */
#include "satellites/interpreters/sessions.h"

#include "satellites/interpreters/engine.h"
#include "satellites/interpreters/interpreters_core.h"
#include "satellites/interpreters/posts.h"
#include "satellites/interpreters/registry.h"

#include <errno.h>
#include <homefree/alloc.h>

/* ---- choosing an interpreter ---- */

static void leave(struct hf_interpreter *interpreter)
{
    struct hf_interpreters *group = interpreter->group;
    if (atomic_fetch_sub(&interpreter->sessions, 1) == 1 &&
        atomic_load(&interpreter->state) != HF_INTERPRETER_RUNNING) {
        pthread_mutex_lock(&interpreter->lock);
        pthread_cond_signal(&interpreter->wake);
        pthread_mutex_unlock(&interpreter->lock);
    }
    hf_group_changed(group);
    hf_group_drop(group);
}

/* Counts a session in; false if the interpreter takes none. */
static bool enter(struct hf_interpreter *interpreter, bool only_if_free)
{
    unsigned none = 0;
    if (only_if_free) {
        if (!atomic_compare_exchange_strong(&interpreter->sessions, &none, 1))
            return false;
    } else
        atomic_fetch_add(&interpreter->sessions, 1);
    hf_group_take(interpreter->group);
    if (atomic_load(&interpreter->state) == HF_INTERPRETER_RUNNING)
        return true;
    leave(interpreter);
    return false;
}

static struct hf_interpreter *least_loaded(struct hf_interpreters *group)
{
    struct hf_interpreter *least = NULL;
    unsigned fewest = 0;
    /* Among equals, each in its turn. */
    const unsigned first = atomic_fetch_add_explicit(&group->next, 1, memory_order_relaxed);
    for (unsigned i = 0; i < group->count; i++) {
        struct hf_interpreter *candidate = &group->interpreters[(first + i) % group->count];
        const unsigned sessions = atomic_load_explicit(&candidate->sessions, memory_order_relaxed);
        if (atomic_load_explicit(&candidate->state, memory_order_relaxed) ==
                HF_INTERPRETER_RUNNING &&
            (least == NULL || sessions < fewest)) {
            least = candidate;
            fewest = sessions;
        }
    }
    return least;
}

static struct hf_interpreter *any_interpreter(struct hf_interpreters *group, int index)
{
    if (index >= 0)
        return enter(&group->interpreters[index], false) ? &group->interpreters[index] : NULL;
    for (;;) {
        struct hf_interpreter *least = least_loaded(group);
        if (least == NULL || enter(least, false))
            return least;
    }
}

static struct hf_interpreter *free_interpreter(struct hf_interpreters *group, int index)
{
    const unsigned from = index >= 0 ? (unsigned)index : 0;
    const unsigned to = index >= 0 ? from + 1 : group->count;
    for (unsigned i = from; i < to; i++)
        if (enter(&group->interpreters[i], true))
            return &group->interpreters[i];
    return NULL;
}

static struct hf_interpreter *wait_for_free(struct hf_interpreters *group, int index,
                                            int timeout_ms)
{
    struct timespec deadline;
    const struct timespec *until = hf_deadline(&deadline, timeout_ms) ? &deadline : NULL;
    struct hf_interpreter *found = NULL;
    bool in_time = true;
    pthread_mutex_lock(&group->lock);
    atomic_fetch_add(&group->waiting, 1);
    while (in_time && !atomic_load(&group->ending) &&
           (found = free_interpreter(group, index)) == NULL)
        in_time = hf_wait(&group->changed, &group->lock, until);
    atomic_fetch_sub(&group->waiting, 1);
    pthread_mutex_unlock(&group->lock);
    return found;
}

/* A waiting thread lets go of its GIL, which the others may need to get done. */
static struct hf_interpreter *free_in_time(struct hf_interpreters *group, int index, int timeout_ms,
                                           int *error)
{
    struct hf_interpreter *found = free_interpreter(group, index);
    if (found != NULL)
        return found;
    struct hf_py_thread *thread = hf_detach(group->py);
    const struct hf_cpython_interpreters *py = group->py;
    /* Whoever ends the group meanwhile may free it. */
    hf_group_take(group);
    found = wait_for_free(group, index, timeout_ms);
    if (atomic_load(&group->ending))
        *error = -ESHUTDOWN;
    hf_reattach(py, thread);
    hf_group_drop(group);
    return found;
}

int hf_sessions_begin(struct hf_session **out, struct hf_interpreters *group, int index,
                      int timeout_ms)
{
    if (index < -1 || (index >= 0 && (unsigned)index >= group->count))
        return -EINVAL;
    struct hf_session *session = hf_calloc(1, sizeof *session);
    if (session == NULL)
        return -ENOMEM;
    int error = timeout_ms == 0 ? -ESHUTDOWN : -ETIMEDOUT;
    session->interpreter = timeout_ms == 0 ? any_interpreter(group, index)
                                           : free_in_time(group, index, timeout_ms, &error);
    if (session->interpreter == NULL) {
        hf_free(session);
        return error;
    }
    session->runs.interpreter = session->interpreter;
    *out = session;
    return 0;
}

/* ---- ending ---- */

/* The thread is where its last attachment is. */
static void come_back(struct hf_thread_record *record)
{
    hf_thread_moves(record, record->depth > 0 ? &record->stack[record->depth - 1].session->runs
                                              : record->tended);
}

static void unlink_from(struct hf_thread_record *record, struct hf_session *session)
{
    struct hf_session **at = &record->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    pthread_mutex_lock(&session->interpreter->lock);
    *session->link = session->next_thread;
    if (session->next_thread != NULL)
        session->next_thread->link = session->link;
    pthread_mutex_unlock(&session->interpreter->lock);
}

static bool has_gil(const struct hf_session *session)
{
    return session->interpreter->group->engine == HF_ENGINE_OWN_GIL;
}

static void forget(struct hf_thread_record *record, struct hf_session *session)
{
    unlink_from(record, session);
    leave(session->interpreter);
    hf_free(session);
}

/* Deletes the session, and its thread state, to which the calling thread is attached. The thread is
 * attached to nothing afterwards. */
static void delete_attached(struct hf_thread_record *record, struct hf_session *session)
{
    const struct hf_cpython_interpreters *py = session->interpreter->group->py;
    if (has_gil(session)) {
        py->thread_clear(session->thread);
        py->thread_delete_current();
    } else
        py->cpython->detach();
    forget(record, session);
}

/* The same for a session that is not on the stack; the calling thread stays attached to what it is
 * attached to. */
static void delete_detached(struct hf_thread_record *record, struct hf_session *session)
{
    const struct hf_cpython_interpreters *py = session->interpreter->group->py;
    if (!has_gil(session) || hf_engine_is_gone(py)) {
        /* There is no thread state, or CPython has deleted it, or will. */
        forget(record, session);
        return;
    }
    struct hf_py_thread *before = hf_detach(py);
    hf_thread_moves(record, &session->runs);
    py->cpython->attach(session->thread);
    hf_posts_run(session->interpreter);
    delete_attached(record, session);
    hf_reattach(py, before);
    come_back(record);
}

/* Ends the sessions of the calling thread that other threads have ended. */
static void delete_ended(struct hf_thread_record *record)
{
    struct hf_session *session = record->sessions, *next;
    for (; session != NULL; session = next) {
        next = session->next;
        if (__atomic_load_n(&session->ended, __ATOMIC_ACQUIRE) && session->attachments == 0)
            delete_detached(record, session);
    }
}

void hf_sessions_thread_ends(struct hf_thread_record *record)
{
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    if (record->depth > 0 && !hf_engine_is_gone(py))
        (void)hf_detach(py);
    record->depth = 0;
    while (record->sessions != NULL) {
        record->sessions->attachments = 0;
        delete_detached(record, record->sessions);
    }
    if (record->own == NULL || record->era != hf_thread_states_era() || hf_engine_is_gone(py))
        return;
    py->cpython->attach(record->own);
    py->thread_clear(record->own);
    py->thread_delete_current();
    record->own = NULL;
}

bool hf_sessions_has(const struct hf_interpreters *group)
{
    const struct hf_thread_record *record = hf_thread_record(false);
    const struct hf_session *session = record != NULL ? record->sessions : NULL;
    while (session != NULL && session->interpreter->group != group)
        session = session->next;
    return session != NULL;
}

/* ---- interrupting without a GIL ---- */

/*
 * An exception is raised in a thread and not in a session, so only a session that its thread runs
 * at the moment is interrupted, and what was raised is taken back when the session is detached: the
 * thread may use another group next. Either the thread sees `interrupted`, and waits for the lock,
 * or who interrupts sees that the session does not run (both are sequentially consistent).
 */
void hf_sessions_interrupt(struct hf_interpreter *interpreter, struct hf_py_object *exception)
{
    pthread_mutex_lock(&interpreter->lock);
    for (struct hf_session *at = interpreter->threads; at != NULL; at = at->next_thread) {
        atomic_store(&at->interrupted, true);
        if (atomic_load(&at->running))
            (void)interpreter->group->py->raise_in(at->number, exception);
    }
    pthread_mutex_unlock(&interpreter->lock);
}

static void take_back(struct hf_session *session)
{
    struct hf_interpreter *interpreter = session->interpreter;
    pthread_mutex_lock(&interpreter->lock); /* what has begun is done afterwards */
    atomic_store(&session->interrupted, false);
    pthread_mutex_unlock(&interpreter->lock);
    (void)interpreter->group->py->raise_in(session->number, NULL);
}

/* The session that the calling thread attached last begins or ceases to run. The thread is attached
 * to it. */
static void note_top(const struct hf_thread_record *record, bool runs)
{
    if (record->depth == 0)
        return;
    struct hf_session *top = record->stack[record->depth - 1].session;
    if (has_gil(top))
        return;
    atomic_store(&top->running, runs);
    if (!runs && atomic_load(&top->interrupted))
        take_back(top);
}

/* ---- attaching ---- */

static bool make_capacity(struct hf_thread_record *record)
{
    if (record->depth < record->capacity)
        return true;
    const size_t capacity = record->capacity == 0 ? 8 : record->capacity * 2;
    struct hf_attachment *stack = hf_realloc(record->stack, capacity * sizeof *stack);
    if (stack == NULL)
        return false;
    record->stack = stack;
    record->capacity = capacity;
    return true;
}

static void take_over(struct hf_session *session, struct hf_thread_record *record)
{
    if (has_gil(session) && hf_thread_enters(record, session->interpreter->id))
        hf_core()->entered(session->interpreter->id);
    session->owner = record;
    session->number = (unsigned long)pthread_self();
    session->next = record->sessions;
    record->sessions = session;
    struct hf_interpreter *interpreter = session->interpreter;
    pthread_mutex_lock(&interpreter->lock);
    session->link = &interpreter->threads;
    session->next_thread = interpreter->threads;
    if (session->next_thread != NULL)
        session->next_thread->link = &session->next_thread;
    interpreter->threads = session;
    pthread_mutex_unlock(&interpreter->lock);
}

static bool is_of(const struct hf_cpython_interpreters *py, struct hf_py_thread *thread,
                  const struct hf_interpreter *interpreter)
{
    return thread != NULL && py->interpreter_of(thread) == interpreter->python;
}

/* The thread state with which this thread, which is attached to `before`, uses a session; it is
 * made if need be. NULL if there is no memory. */
static struct hf_py_thread *thread_for(struct hf_session *session, struct hf_thread_record *record,
                                       struct hf_py_thread *before)
{
    const struct hf_interpreter *interpreter = session->interpreter;
    const struct hf_cpython_interpreters *py = interpreter->group->py;
    if (has_gil(session)) {
        if (session->thread == NULL)
            session->thread = hf_thread_state_new(py, record, interpreter->python);
        return session->thread;
    }
    struct hf_py_thread *last = py->cpython->this_thread();
    if (is_of(py, before, interpreter))
        return before;
    if (is_of(py, last, interpreter))
        return last;
    if (record->own == NULL || record->era != hf_thread_states_era()) {
        record->own = hf_thread_state_new(py, record, interpreter->python);
        record->era = hf_thread_states_era();
    }
    return record->own;
}

/* A thread state that this thread has besides, and that is attached to nothing now: the main
 * interpreter's, say, in a function that was called without the GIL. NULL: none. */
static struct hf_py_thread *set_aside(const struct hf_cpython_interpreters *py,
                                      const struct hf_thread_record *record)
{
    struct hf_py_thread *found = py->cpython->this_thread();
    for (const struct hf_session *session = record->sessions; session != NULL;
         session = session->next)
        if (session->thread == found)
            return NULL;
    return found;
}

int hf_sessions_attach(struct hf_session *session)
{
    struct hf_interpreter *interpreter = session->interpreter;
    const struct hf_cpython_interpreters *py = interpreter->group->py;
    struct hf_thread_record *record = hf_thread_record(true);
    if (record == NULL || !make_capacity(record))
        return -ENOMEM;
    if (session->owner != NULL && session->owner != record)
        return -EPERM;
    delete_ended(record);
    if (hf_engine_is_gone(py) || atomic_load(&interpreter->state) >= HF_INTERPRETER_PARKED)
        return -ESHUTDOWN;
    struct hf_py_thread *before = py->cpython->current_thread();
    if (before == NULL && record->depth == 0 && has_gil(session))
        record->aside = set_aside(py, record);
    struct hf_py_thread *thread = thread_for(session, record, before);
    if (thread == NULL)
        return -ENOMEM;
    if (session->owner == NULL)
        take_over(session, record);
    if (before != thread) {
        if (before != NULL)
            py->cpython->detach();
        py->cpython->attach(thread);
    }
    note_top(record, false);
    record->stack[record->depth++] = (struct hf_attachment){session, thread, before};
    hf_thread_moves(record, &session->runs);
    if (interpreter->group->naming_ends != NULL)
        hf_signal_stack_give(&record->signals);
    session->attachments++;
    note_top(record, true);
    atomic_fetch_add_explicit(&interpreter->calls, 1, memory_order_relaxed);
    hf_posts_run(hf_interpreter_behind(interpreter));
    return 0;
}

/* The calling thread's last attachment, if it is one of this session. */
static struct hf_thread_record *top_is(const struct hf_session *session)
{
    struct hf_thread_record *record = hf_thread_record(false);
    return record != NULL && record->depth > 0 &&
                   record->stack[record->depth - 1].session == session
               ? record
               : NULL;
}

/* PyGILState_Ensure() takes the thread state that was attached last. Attaching the one that was set
 * aside for a moment makes it that one again. */
static void put_back(const struct hf_cpython_interpreters *py, struct hf_thread_record *record)
{
    struct hf_py_thread *aside = record->aside;
    record->aside = NULL;
    if (aside == NULL || hf_engine_is_gone(py) || py->cpython->current_thread() != NULL)
        return;
    py->cpython->attach(aside);
    py->cpython->detach();
}

int hf_sessions_detach(struct hf_session *session)
{
    const struct hf_cpython_interpreters *py = session->interpreter->group->py;
    struct hf_thread_record *record = top_is(session);
    if (record == NULL)
        return -EINVAL;
    const struct hf_attachment last = record->stack[record->depth - 1];
    if (py->cpython->current_thread() != last.thread)
        return -EPERM;
    hf_posts_run(hf_interpreter_behind(session->interpreter));
    note_top(record, false);
    record->depth--;
    session->attachments--;
    note_top(record, true);
    const bool ends =
        session->attachments == 0 && __atomic_load_n(&session->ended, __ATOMIC_ACQUIRE);
    if (last.before == last.thread) {
        if (ends)
            forget(record, session);
        come_back(record);
        return 0;
    }
    if (ends)
        delete_attached(record, session);
    else
        py->cpython->detach();
    come_back(record);
    hf_reattach(py, last.before);
    if (record->depth == 0)
        put_back(py, record);
    delete_ended(record);
    return 0;
}

void hf_sessions_end(struct hf_session *session)
{
    struct hf_thread_record *record = hf_thread_record(false);
    if (session->owner == NULL) {
        leave(session->interpreter);
        hf_free(session);
        return;
    }
    const bool own = session->owner == record;
    __atomic_store_n(&session->ended, true, __ATOMIC_RELEASE);
    if (!own)
        return; /* from here on the session is its owner's */
    struct hf_interpreters *group = session->interpreter->group;
    hf_group_take(group);
    while (top_is(session) != NULL && session->attachments > 1)
        if (hf_sessions_detach(session) != 0)
            break;
    if (session->attachments == 0)
        delete_detached(record, session);
    else
        (void)hf_sessions_detach(session);
    hf_group_drop(group);
}
