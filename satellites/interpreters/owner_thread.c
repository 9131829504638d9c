/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the turn: interpreters are made and ended one after the other, because CPython 3.12 and 3.13
 * change what all interpreters share while they do so. The turn is not a lock: Python code runs
 * while an owner thread has it, and whoever waits for it is not attached. It is taken away from an
 * interpreter that is given up.
 *
 * An owner thread leaves the host its signals (hf_thread_make()).
 */
#include "satellites/interpreters/owner_thread.h"

#include "alloc/base/fork_lock.h"
#include "satellites/interpreters/engine.h"
#include "satellites/interpreters/inside.h"
#include "satellites/interpreters/interpreters_core.h"
#include "satellites/interpreters/posts.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/sessions.h"
#include "satellites/interpreters/thread_states.h"
#include "satellites/interpreters/value_memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/alloc.h>
#include <homefree/host.h>
#include <link.h>
#include <stdio.h>

#define AGAIN_MS    50 /* between two looks at what cannot be waited for */
#define CALLS_ALONE 5  /* interruptions of calls before those of other threads */
#define TURN_S      10 /* what has the turn for longer hangs; a busy machine takes a second at times */

/* ---- the turn ---- */

static pthread_mutex_t HF_FORK_LOCK turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_is_free = PTHREAD_COND_INITIALIZER;
static const struct hf_interpreter *has_turn; /* guarded by `turn_lock`, like the next */
static struct timespec since;

static void take_turn(const struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&turn_lock);
    while (has_turn != NULL)
        pthread_cond_wait(&turn_is_free, &turn_lock);
    has_turn = interpreter;
    clock_gettime(CLOCK_MONOTONIC, &since);
    pthread_mutex_unlock(&turn_lock);
}

static void leave_turn(const struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&turn_lock);
    if (has_turn == interpreter) {
        has_turn = NULL;
        pthread_cond_signal(&turn_is_free);
    }
    pthread_mutex_unlock(&turn_lock);
}

static bool hangs_in_turn(const struct hf_interpreter *interpreter)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&turn_lock);
    const bool hangs = has_turn == interpreter && now.tv_sec - since.tv_sec > TURN_S;
    pthread_mutex_unlock(&turn_lock);
    return hangs;
}

void hf_owner_thread_in_child(void)
{
    pthread_cond_init(&turn_is_free, NULL);
    has_turn = NULL;
}

static void set_state(struct hf_interpreter *interpreter, enum hf_interpreter_state state)
{
    const int before = atomic_exchange(&interpreter->state, (int)state);
    hf_registry_count((enum hf_interpreter_state)before, state);
    hf_group_changed(interpreter->group);
}

/* ---- making ---- */

struct making {
    struct hf_interpreter *interpreter;
    const struct hf_owner_thread_order *order;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
    int error;
};

static void delete_current(const struct hf_cpython_interpreters *py, struct hf_py_thread *thread)
{
    py->thread_clear(thread);
    py->thread_delete_current();
}

/* Makes the interpreter while attached to the main one, whose configuration the new one copies.
 * Returns attached to the new one, or detached with an error. */
static int make_own(struct hf_interpreter *interpreter, const struct hf_owner_thread_order *order,
                    struct hf_py_thread *in_main)
{
    const struct hf_cpython_interpreters *py = interpreter->group->py;
    const struct hf_py_config config = {
        .allow_threads = 1, .check_multi_interp_extensions = 1, .gil = HF_PY_OWN_GIL};
    const int error = hf_core()->begins(order->memory_limit);
    if (error == -EMFILE && order->why_size > 0)
        snprintf(order->why, order->why_size,
                 "there are 64 limits, and each interpreter with "
                 "a memory limit takes one");
    if (error == -ENOTSUP && order->why_size > 0)
        snprintf(order->why, order->why_size,
                 "a memory limit needs CPython's own object allocator, without PYTHONMALLOC, "
                 "-X dev, tracemalloc and install(python=\"full\")");
    if (error != 0) {
        interpreter->first = NULL;
        delete_current(py, in_main);
        return error;
    }
    const struct hf_py_status status = py->new_interpreter(&interpreter->first, &config);
    const bool made = status.kind == 0 && interpreter->first != NULL;
    hf_core()->begun(made ? py->interpreter_id(py->interpreter_of(interpreter->first)) : -1);
    if (made)
        return 0;
    if (order->why_size > 0)
        snprintf(order->why, order->why_size, "CPython could not make an interpreter: %s",
                 status.message != NULL ? status.message : "no reason given");
    interpreter->first = NULL;
    struct hf_py_thread *current = py->cpython->current_thread();
    if (current != in_main && current != NULL)
        py->cpython->detach();
    if (current != in_main)
        py->cpython->attach(in_main);
    delete_current(py, in_main);
    return -EIO;
}

/* Whether the owner thread's thread state is the only one. CPython puts new ones in front. */
static bool is_alone(const struct hf_interpreter *interpreter)
{
    return interpreter->group->py->thread_head(interpreter->python) == interpreter->first;
}

/* Called attached to an interpreter that nobody else is in; returns detached. What it had goes back
 * to the system. */
static void end_alone(const struct hf_interpreter *interpreter)
{
    interpreter->group->py->end_interpreter(interpreter->first);
    hf_threads_ended(interpreter->id);
    if (!interpreter->forsaken)
        hf_core()->ended(interpreter->id);
}

/* Ends an interpreter that could not be set up, unless the attempt has left a thread there. Called
 * attached to it; returns detached. */
static void undo(struct hf_interpreter *interpreter)
{
    const struct hf_cpython_interpreters *py = interpreter->group->py;
    if (is_alone(interpreter))
        hf_inside_finish(py);
    if (is_alone(interpreter)) {
        end_alone(interpreter);
        interpreter->first = NULL;
    } else
        py->cpython->detach();
}

/* It may be too much already. */
static int limit(struct hf_interpreter *interpreter, const struct hf_owner_thread_order *order)
{
    const int error = hf_core()->limit(interpreter->id, order->memory_limit);
    interpreter->limited = true;
    if (error == 0)
        return 0;
    (void)hf_core()->limit(interpreter->id, HF_LIMIT_NONE);
    if (error == -ENOMEM && order->why_size > 0)
        snprintf(order->why, order->why_size,
                 "an interpreter needs more memory than %ju bytes before its first call",
                 (uintmax_t)order->memory_limit);
    return error;
}

/* On an error, the interpreter has no thread state `first`, or still has to end. Called and returns
 * detached. */
static int make_interpreter(struct hf_interpreter *interpreter,
                            const struct hf_owner_thread_order *order)
{
    struct hf_interpreters *group = interpreter->group;
    const struct hf_cpython_interpreters *py = group->py;
    char **paths = NULL;
    struct hf_py_thread *in_main = py->thread_new(py->main_interpreter());
    if (in_main == NULL)
        return -ENOMEM;
    py->cpython->attach(in_main);
    int error = 0;
    if (order->with_heap && interpreter->index == 0)
        (void)hf_python_install(NULL, NULL);
    if (group->engine == HF_ENGINE_OWN_GIL) {
        if (order->paths == NULL)
            paths = hf_inside_paths(py);
        error = make_own(interpreter, order, in_main);
    } else
        interpreter->first = in_main;
    if (error == 0) {
        interpreter->python = py->interpreter_of(interpreter->first);
        interpreter->id = py->interpreter_id(interpreter->python);
        hf_thread_moves(hf_thread_record(false), &interpreter->tended);
        const char *const *wanted =
            order->paths != NULL ? order->paths : (const char *const *)paths;
        if (group->engine == HF_ENGINE_OWN_GIL || interpreter->index == 0)
            error = hf_inside_set_up(py, wanted, order->with_package, order->set_up, order->why,
                                     order->why_size);
        if (error == 0 && order->memory_limit != 0)
            error = limit(interpreter, order);
        if (error != 0 && group->engine == HF_ENGINE_OWN_GIL)
            undo(interpreter);
        else if (error != 0) {
            delete_current(py, interpreter->first);
            interpreter->first = NULL;
        } else
            py->cpython->detach();
        if (group->engine == HF_ENGINE_OWN_GIL) {
            py->cpython->attach(in_main);
            delete_current(py, in_main);
        }
    }
    hf_free(paths);
    return error;
}

/* ---- ending ---- */

/* Under the interpreter's lock: whether it may end now, as far as can be seen from outside. */
static bool may_end(const struct hf_interpreter *interpreter)
{
    return atomic_load(&interpreter->state) != HF_INTERPRETER_RUNNING &&
           atomic_load(&interpreter->sessions) == 0 &&
           (interpreter->held == 0 || interpreter->forsaken);
}

/* Others can have its limit, of which there are few. Called attached to it. */
static void end_limit(struct hf_interpreter *interpreter)
{
    if (interpreter->limited)
        hf_core()->unlimit(interpreter->id);
    interpreter->limited = false;
}

/* Serves the interpreter until it may end. Called and returns detached. */
static void serve(struct hf_interpreter *interpreter)
{
    const struct hf_cpython *cpython = interpreter->group->py->cpython;
    for (bool parks = false;; parks = false) {
        pthread_mutex_lock(&interpreter->lock);
        while (!parks && interpreter->head == NULL && !may_end(interpreter)) {
            int ending = HF_INTERPRETER_ENDING;
            const bool is_held = atomic_load(&interpreter->sessions) == 0 && interpreter->held > 0;
            parks = is_held && interpreter->limited && atomic_load(&interpreter->state) == ending;
            if (parks)
                continue;
            if (is_held && atomic_compare_exchange_strong(&interpreter->state, &ending,
                                                          HF_INTERPRETER_PARKED)) {
                hf_registry_count(HF_INTERPRETER_ENDING, HF_INTERPRETER_PARKED);
                pthread_mutex_unlock(&interpreter->lock);
                hf_group_changed(interpreter->group);
                pthread_mutex_lock(&interpreter->lock);
                continue;
            }
            pthread_cond_wait(&interpreter->wake, &interpreter->lock);
        }
        const bool posted = interpreter->head != NULL;
        pthread_mutex_unlock(&interpreter->lock);
        if (!posted && !parks)
            return;
        cpython->attach(interpreter->first);
        if (parks)
            end_limit(interpreter);
        hf_posts_run(interpreter);
        cpython->detach();
    }
}

static void wait_a_little(struct hf_interpreter *interpreter)
{
    struct timespec until;
    (void)hf_deadline(&until, AGAIN_MS);
    pthread_mutex_lock(&interpreter->lock);
    (void)hf_wait(&interpreter->wake, &interpreter->lock, &until);
    pthread_mutex_unlock(&interpreter->lock);
}

static void end_interpreter(struct hf_interpreter *interpreter)
{
    const struct hf_interpreters *group = interpreter->group;
    const struct hf_cpython_interpreters *py = group->py;
    bool finished = group->engine == HF_ENGINE_THREADS;
    for (;; wait_a_little(interpreter)) {
        serve(interpreter);
        hf_running_name(&interpreter->tended, "<end>");
        py->cpython->attach(interpreter->first);
        end_limit(interpreter);
        if (!finished)
            hf_inside_finish(py);
        finished = true;
        /* Threads of `_thread` and of C code are known to nobody but CPython. */
        if ((group->engine == HF_ENGINE_THREADS || is_alone(interpreter)) &&
            hf_registry_remove(interpreter))
            break;
        hf_posts_run(interpreter);
        py->cpython->detach();
    }
    if (group->engine == HF_ENGINE_THREADS) {
        hf_memory_forget(py, interpreter);
        delete_current(py, interpreter->first);
        return;
    }
    py->cpython->detach();
    take_turn(interpreter);
    py->cpython->attach(interpreter->first);
    hf_memory_forget(py, interpreter);
    end_alone(interpreter);
    leave_turn(interpreter);
}

/* ---- the owner thread ---- */

static void *take_care(void *argument)
{
    struct making *making = argument;
    struct hf_interpreter *interpreter = making->interpreter;
    struct hf_interpreters *group = interpreter->group;
    struct hf_thread_record *record = hf_thread_record(true);
    if (record != NULL) {
        record->is_owner_thread = true;
        record->tended = &interpreter->tended;
        hf_thread_moves(record, record->tended);
        if (group->naming_ends != NULL)
            hf_signal_stack_give(&record->signals);
    }
    hf_running_name(&interpreter->tended, "<start>");
    take_turn(interpreter);
    const int error = record != NULL ? make_interpreter(interpreter, making->order) : -ENOMEM;
    leave_turn(interpreter);
    hf_running_name(&interpreter->tended, NULL);
    const bool lives = interpreter->first != NULL;
    if (lives) {
        interpreter->has_owner_thread = true;
        interpreter->owner_thread = (unsigned long)pthread_self();
        char name[16]; /* for debuggers */
        snprintf(name, sizeof name, "owner of %d", (int)interpreter->id);
        (void)pthread_setname_np(pthread_self(), name);
        set_state(interpreter, HF_INTERPRETER_RUNNING);
        hf_registry_add(interpreter);
    }
    if (lives && error != 0)
        hf_owner_thread_dismiss(interpreter);
    pthread_mutex_lock(&making->lock);
    making->error = error;
    making->is_done = true;
    pthread_cond_signal(&making->done);
    pthread_mutex_unlock(&making->lock);
    if (lives) {
        end_interpreter(interpreter);
        set_state(interpreter, HF_INTERPRETER_ENDED);
    }
    if (record != NULL) {
        record->tended = NULL;
        hf_thread_moves(record, NULL);
    }
    hf_group_drop(group);
    return NULL;
}

int hf_owner_thread_make(struct hf_interpreter *interpreter,
                         const struct hf_owner_thread_order *order)
{
    struct making making = {.interpreter = interpreter,
                            .order = order,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .done = PTHREAD_COND_INITIALIZER};
    hf_group_take(interpreter->group);
    const int error = hf_thread_make(take_care, &making);
    if (error != 0) {
        hf_group_drop(interpreter->group);
        return error;
    }
    pthread_mutex_lock(&making.lock);
    while (!making.is_done)
        pthread_cond_wait(&making.done, &making.lock);
    pthread_mutex_unlock(&making.lock);
    return making.error;
}

void hf_owner_thread_dismiss(struct hf_interpreter *interpreter)
{
    int running = HF_INTERPRETER_RUNNING;
    if (atomic_compare_exchange_strong(&interpreter->state, &running, HF_INTERPRETER_ENDING))
        hf_registry_count(HF_INTERPRETER_RUNNING, HF_INTERPRETER_ENDING);
    pthread_mutex_lock(&interpreter->lock);
    pthread_cond_signal(&interpreter->wake);
    pthread_mutex_unlock(&interpreter->lock);
}

void hf_owner_thread_forsake(struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&interpreter->lock);
    interpreter->forsaken = true;
    pthread_mutex_unlock(&interpreter->lock);
    atomic_store(&interpreter->group->ending, true);
    hf_owner_thread_dismiss(interpreter);
}

/* ---- interpreters that CPython ends without ---- */

/*
 * Code in them never returns. Py_FinalizeEx() ends the process if it finds other interpreters in
 * the list, and nothing that CPython offers takes one out without freeing what its threads still
 * use. Where the link to an interpreter lies differs with CPython's version, so each word that
 * holds the interpreter's address is tried: it is the link if CPython's own functions then leave it
 * out.
 */

/* Less than any version's, and more than where the link lies: 0 in 3.12, 7264 in 3.13. */
#define INTERPRETER_SIZE ((size_t)32 << 10)

static struct hf_py_interpreter *next_to(const struct hf_cpython_interpreters *py,
                                         struct hf_py_interpreter *before)
{
    return before != NULL ? py->interpreter_next(before) : py->interpreter_head();
}

/* The memory that the link to an interpreter is in: the one before it, or CPython's _PyRuntime. */
static void *holder_of(struct hf_py_interpreter *before, size_t *size)
{
    Dl_info info;
    void *runtime, *symbol = NULL;
    *size = INTERPRETER_SIZE;
    if (before != NULL)
        return before;
    runtime = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (runtime == NULL || dladdr1(runtime, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
        return NULL;
    *size = ((const ElfW(Sym) *)symbol)->st_size;
    return runtime;
}

/* Takes an interpreter out of CPython's list; false: it is the main one, or CPython's list was not
 * found. Nothing of it is freed, and its threads end when they next want its GIL while CPython is
 * finalized. It must not be ended any more, and none is made or ended meanwhile. */
static bool unlist(const struct hf_cpython_interpreters *py, struct hf_py_interpreter *stuck)
{
    struct hf_py_interpreter *before = NULL, *at, *const after = py->interpreter_next(stuck);
    size_t size;
    while ((at = next_to(py, before)) != stuck && at != NULL)
        before = at;
    struct hf_py_interpreter **words = holder_of(before, &size);
    if (at == NULL || after == NULL || words == NULL)
        return false;
    for (size_t i = 0; i < size / sizeof *words; i++) {
        if (words[i] != stuck)
            continue;
        words[i] = after;
        if (next_to(py, before) == after)
            return true;
        words[i] = stuck;
    }
    return false;
}

void hf_owner_thread_lose(struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&turn_lock);
    pthread_mutex_lock(&interpreter->lock);
    if (has_turn == NULL && !interpreter->is_lost && !interpreter->finishing &&
        interpreter->group->engine == HF_ENGINE_OWN_GIL)
        interpreter->is_lost = unlist(interpreter->group->py, interpreter->python);
    pthread_mutex_unlock(&interpreter->lock);
    pthread_mutex_unlock(&turn_lock);
}

/* ---- interrupting ---- */

/* The threads that have sessions of the interpreter: a block of the heap, or NULL. */
static unsigned long *threads_of(struct hf_interpreter *interpreter, size_t *count)
{
    size_t all = 0;
    pthread_mutex_lock(&interpreter->lock);
    for (const struct hf_session *at = interpreter->threads; at != NULL; at = at->next_thread)
        all++;
    unsigned long *threads = hf_malloc((all + 1) * sizeof *threads);
    *count = 0;
    for (const struct hf_session *at = interpreter->threads; threads != NULL && at != NULL;
         at = at->next_thread)
        threads[(*count)++] = at->number;
    pthread_mutex_unlock(&interpreter->lock);
    return threads;
}

/* Calls may wait for threads of the interpreter, which can end only while those live: a pool whose
 * threads were interrupted never answers. So the calls come first. */
static void interrupt_own(struct hf_interpreter *interpreter, struct hf_py_object *exception)
{
    size_t count;
    pthread_mutex_lock(&interpreter->lock);
    const bool all = interpreter->interruptions > CALLS_ALONE;
    pthread_mutex_unlock(&interpreter->lock);
    unsigned long *threads = threads_of(interpreter, &count);
    hf_inside_interrupt(interpreter->group->py, exception, threads, count, all || count == 0,
                        interpreter->owner_thread);
    hf_free(threads);
}

static void *interrupt(void *argument)
{
    struct hf_interpreter *interpreter = argument;
    struct hf_interpreters *group = interpreter->group;
    const struct hf_cpython_interpreters *py = group->py;
    struct hf_py_thread *thread = py->thread_new(interpreter->python);
    if (thread != NULL) {
        py->cpython->attach(thread);
        struct hf_py_object *exception = hf_inside_system_exit(py);
        if (exception != NULL && group->engine == HF_ENGINE_THREADS)
            hf_sessions_interrupt(interpreter, exception);
        else if (exception != NULL)
            interrupt_own(interpreter, exception);
        if (exception != NULL)
            py->cpython->release(exception);
        delete_current(py, thread);
    }
    pthread_mutex_lock(&interpreter->lock);
    interpreter->helpers--;
    pthread_cond_signal(&interpreter->wake);
    pthread_mutex_unlock(&interpreter->lock);
    hf_group_drop(group);
    return NULL;
}

void hf_owner_thread_interrupt(struct hf_interpreter *interpreter)
{
    struct hf_interpreters *group = interpreter->group;
    pthread_mutex_lock(&interpreter->lock);
    if (!interpreter->finishing && interpreter->helpers == 0) {
        interpreter->helpers++;
        interpreter->interruptions++;
        hf_group_take(group);
        if (hf_thread_make(interrupt, interpreter) != 0) {
            interpreter->helpers--;
            hf_group_drop(group);
        }
    }
    pthread_mutex_unlock(&interpreter->lock);
}

void hf_owner_thread_give_up(struct hf_interpreter *interpreter)
{
    int ending = HF_INTERPRETER_ENDING;
    if (atomic_compare_exchange_strong(&interpreter->state, &ending, HF_INTERPRETER_HUNG))
        hf_registry_count(HF_INTERPRETER_ENDING, HF_INTERPRETER_HUNG);
    if (hangs_in_turn(interpreter))
        leave_turn(interpreter);
}
