/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns nothing but the initialisation of CPython, once, under a lock of its own.
 */
#include "satellites/interpreters/group.h"

#include "alloc/base/fork_lock.h"
#include "alloc/base/sized.h"
#include "satellites/interpreters/engine.h"
#include "satellites/interpreters/naming.h"
#include "satellites/interpreters/owner_thread.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/sessions.h"
#include "satellites/interpreters/thread_states.h"

#include <errno.h>
#include <homefree/alloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GRACE_MS     1000  /* for what is interrupted */
#define FINISH_MS    11000 /* for CPython alone, which ends one interpreter after the other */
#define INTERRUPT_MS 100   /* between two interruptions of the same code */

/* ---- starting ---- */

/* CPython has no lock for this; its other callers are the program's business. */
static int initialize(const struct hf_cpython_interpreters *py)
{
    static pthread_mutex_t HF_FORK_LOCK initializing = PTHREAD_MUTEX_INITIALIZER;
    int error = 0;
    pthread_mutex_lock(&initializing);
    if (py->cpython->is_initialized() == 0) {
        py->initialize(0);
        error = py->cpython->is_initialized() != 0 ? 0 : -EIO;
        if (error == 0)
            py->cpython->detach();
    }
    pthread_mutex_unlock(&initializing);
    return error;
}

static int read_options(struct hf_interpreters_options *out,
                        const struct hf_interpreters_options *options)
{
    *out = (struct hf_interpreters_options){.size = sizeof *out};
    if (options != NULL) {
        if (options->size <= sizeof(size_t))
            return -EINVAL;
        hf_sized_copy(out, options, options->size);
    }
    for (size_t i = 0; out->paths != NULL && i < out->path_count; i++)
        if (out->paths[i] == NULL)
            return -EINVAL;
    if (out->count == 0) {
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);
        out->count = processors > 1 ? (unsigned)processors : 1;
        if (out->count > HF_INTERPRETERS_MAX)
            out->count = HF_INTERPRETERS_MAX;
    }
    return out->count <= HF_INTERPRETERS_MAX ? 0 : -EINVAL;
}

/* Makes them one after the other; dismisses those that were made if one cannot be. */
static int make_all(struct hf_interpreters *group, const struct hf_owner_thread_order *order)
{
    int error = 0;
    unsigned made = 0;
    while (made < group->count && error == 0) {
        error = hf_owner_thread_make(&group->interpreters[made], order);
        made += error == 0;
    }
    for (unsigned i = 0; error != 0 && i < made; i++)
        hf_owner_thread_dismiss(&group->interpreters[i]);
    return error;
}

static int start_group(struct hf_interpreters **out, const struct hf_interpreters_options *options,
                       const struct hf_cpython_interpreters *py, int engine, char *why, size_t size)
{
    struct hf_interpreters *group = hf_group_new(options->count);
    const char **paths =
        options->paths != NULL ? hf_calloc(options->path_count + 1, sizeof *paths) : NULL;
    if (group == NULL || (options->paths != NULL && paths == NULL)) {
        hf_free(group);
        return -ENOMEM;
    }
    for (size_t i = 0; paths != NULL && i < options->path_count; i++)
        paths[i] = options->paths[i];
    group->py = py;
    group->engine = engine;
    /* Also so that the fork handler of registry.c, from now on, clears what is written here. */
    struct hf_interpreter *const all_have = hf_registry_main();
    group->shared = engine == HF_ENGINE_THREADS ? all_have : NULL;
    group->generation = hf_registry_generation();
    hf_naming_begin(group, options->name_crashes);
    const struct hf_owner_thread_order order = {.paths = paths,
                                                .set_up = options->set_up,
                                                .with_package = !options->without_package,
                                                .with_heap = !options->without_heap,
                                                .memory_limit = options->memory_limit,
                                                .why = why,
                                                .why_size = size};
    int error = initialize(py);
    if (error == 0 && py->is_finalizing() != 0)
        error = -ESHUTDOWN;
    if (error == 0) {
        struct hf_py_thread *thread = hf_detach(py);
        error = make_all(group, &order);
        hf_reattach(py, thread);
    }
    hf_free(paths);
    if (error != 0)
        hf_group_drop(group);
    else
        *out = group;
    return error;
}

int hf_group_start(struct hf_interpreters **out, const struct hf_interpreters_options *options,
                   char *why, size_t why_size)
{
    struct hf_interpreters_options wanted;
    const struct hf_cpython_interpreters *py = NULL;
    const struct hf_thread_record *record = hf_thread_record(false);
    char ignored[1] = "";
    if (why == NULL || why_size == 0) {
        why = ignored;
        why_size = sizeof ignored;
    }
    why[0] = '\0';
    int error = out != NULL ? read_options(&wanted, options) : -EINVAL;
    if (error == 0 && record != NULL && record->is_owner_thread)
        error = -EDEADLK;
    if (error == 0) {
        const int engine = hf_engine_find((const void *)wanted.cpython, &py, why, why_size);
        error = engine <= 0 ? engine
                : engine == HF_ENGINE_THREADS && wanted.memory_limit != 0
                    ? -ENOSYS
                    : start_group(out, &wanted, py, engine, why, why_size);
    }
    if (error != 0 && why[0] == '\0')
        snprintf(why, why_size, "%s", strerror(-error));
    return error;
}

/* ---- describing ---- */

_Static_assert(sizeof((struct hf_interpreter_stats *)0)->runs == HF_RUNNING_MAX,
               "what runs fits into what is told of it");

/* Under the interpreter's lock: what the session that began last runs, of those that run anything;
 * else its owner thread. */
static void read_runs(const struct hf_interpreter *interpreter, char out[HF_RUNNING_MAX])
{
    for (const struct hf_session *at = interpreter->threads; at != NULL; at = at->next_thread)
        if (hf_running_read(&at->runs, out))
            return;
    if (!hf_running_read(&interpreter->tended, out))
        out[0] = '\0';
}

int hf_group_stats(struct hf_interpreters *group, unsigned index, struct hf_interpreter_stats *out)
{
    if (index >= group->count || out->size <= sizeof(size_t))
        return -EINVAL;
    struct hf_interpreter *interpreter = &group->interpreters[index];
    struct hf_interpreter *behind = hf_interpreter_behind(interpreter);
    struct hf_interpreter_stats stats = {
        .id = interpreter->id,
        .state = (enum hf_interpreter_state)atomic_load(&interpreter->state),
        .sessions = atomic_load(&interpreter->sessions),
        .waiting = atomic_load(&group->waiting),
        .calls = atomic_load(&interpreter->calls),
        .posted = atomic_load(&behind->posted),
    };
    pthread_mutex_lock(&behind->lock);
    stats.held = behind->held;
    pthread_mutex_unlock(&behind->lock);
    pthread_mutex_lock(&interpreter->lock);
    read_runs(interpreter, stats.runs);
    pthread_mutex_unlock(&interpreter->lock);
    hf_sized_copy(out, &stats, sizeof stats);
    return 0;
}

/* ---- ending ---- */

static bool has_ended(struct hf_interpreter *interpreter)
{
    const int state = atomic_load(&interpreter->state);
    return state == HF_INTERPRETER_ENDED || state == HF_INTERPRETER_PARKED;
}

static bool all_ended(struct hf_interpreters *group)
{
    for (unsigned i = 0; i < group->count; i++)
        if (!has_ended(&group->interpreters[i]))
            return false;
    return true;
}

/* Waits until every interpreter has ended or is parked. */
static bool wait_for_all(struct hf_interpreters *group, const struct timespec *until)
{
    bool in_time = true, done;
    pthread_mutex_lock(&group->lock);
    atomic_fetch_add(&group->waiting, 1);
    while (!(done = all_ended(group)) && in_time)
        in_time = hf_wait(&group->changed, &group->lock, until);
    atomic_fetch_sub(&group->waiting, 1);
    pthread_mutex_unlock(&group->lock);
    return done;
}

static bool interrupt_all(struct hf_interpreters *group)
{
    bool done = false;
    for (int waited = 0; !done && waited < GRACE_MS; waited += INTERRUPT_MS) {
        struct timespec until;
        for (unsigned i = 0; i < group->count; i++)
            if (!has_ended(&group->interpreters[i]))
                hf_owner_thread_interrupt(&group->interpreters[i]);
        (void)hf_deadline(&until, INTERRUPT_MS);
        done = wait_for_all(group, &until);
    }
    return done;
}

/* Whether nothing but CPython's own work is left. */
static bool all_finish(struct hf_interpreters *group)
{
    bool finish = true;
    for (unsigned i = 0; finish && i < group->count; i++) {
        struct hf_interpreter *interpreter = &group->interpreters[i];
        pthread_mutex_lock(&interpreter->lock);
        finish = interpreter->finishing || has_ended(interpreter);
        pthread_mutex_unlock(&interpreter->lock);
    }
    return finish;
}

static int end_all(struct hf_interpreters *group, int timeout_ms)
{
    struct timespec deadline;
    const struct timespec *until = hf_deadline(&deadline, timeout_ms) ? &deadline : NULL;
    for (unsigned i = 0; i < group->count; i++)
        hf_owner_thread_dismiss(&group->interpreters[i]);
    pthread_mutex_lock(&group->lock);
    pthread_cond_broadcast(&group->changed); /* for those that wait to begin a session */
    pthread_mutex_unlock(&group->lock);
    if (wait_for_all(group, until) || interrupt_all(group))
        return 0;
    (void)hf_deadline(&deadline, FINISH_MS);
    if (all_finish(group) && wait_for_all(group, &deadline))
        return 0;
    for (unsigned i = 0; i < group->count; i++)
        if (!has_ended(&group->interpreters[i]))
            hf_owner_thread_give_up(&group->interpreters[i]);
    return all_ended(group) ? 0 : -ETIMEDOUT;
}

static bool any_parked(struct hf_interpreters *group)
{
    bool parked = false;
    for (unsigned i = 0; i < group->count; i++)
        parked = parked || atomic_load(&group->interpreters[i].state) == HF_INTERPRETER_PARKED;
    return parked;
}

int hf_group_end(struct hf_interpreters *group, int timeout_ms)
{
    const struct hf_thread_record *record = hf_thread_record(false);
    if ((record != NULL && record->is_owner_thread) || hf_sessions_has(group))
        return -EDEADLK;
    atomic_store(&group->ending, true);
    if (atomic_exchange(&group->is_being_ended, true))
        return -EBUSY;
    const struct hf_cpython_interpreters *py = group->py;
    struct hf_py_thread *thread = hf_detach(py);
    const int error = end_all(group, timeout_ms);
    hf_reattach(py, thread);
    atomic_store(&group->is_being_ended, false);
    if (error == 0) {
        if (!any_parked(group) && group->naming_ends != NULL) {
            group->naming_ends();
            group->naming_ends = NULL;
        }
        hf_group_drop(group);
    }
    return error;
}

/* Only what is on the list may still need it; the registry's lock keeps that from ending. */
int hf_group_finish_all(int timeout_ms)
{
    const struct hf_thread_record *record = hf_thread_record(false);
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    struct timespec deadline;
    const struct timespec *until = hf_deadline(&deadline, timeout_ms) ? &deadline : NULL;
    if (record != NULL && (record->is_owner_thread || record->sessions != NULL))
        return -EDEADLK;
    if (py == NULL)
        return 0; /* there has never been a group */
    struct hf_py_thread *thread = hf_detach(py);
    hf_registry_each(hf_owner_thread_forsake);
    bool done = hf_registry_wait(until);
    for (int waited = 0; !done && waited < GRACE_MS; waited += INTERRUPT_MS) {
        hf_registry_each(hf_owner_thread_interrupt);
        (void)hf_deadline(&deadline, INTERRUPT_MS);
        done = hf_registry_wait(&deadline);
    }
    if (!done)
        hf_registry_each(hf_owner_thread_lose);
    hf_thread_states_expire();
    hf_reattach(py, thread);
    return done ? 0 : -ETIMEDOUT;
}
