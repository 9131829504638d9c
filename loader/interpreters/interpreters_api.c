/*
 * The exported functions of homefree/interpreters.h: they check what they are given, and every copy
 * of libhomefree forwards them to the heap's copy, whose groups and sessions they are. Owns
 * nothing.
 */
#include "loader/interpreters/interpreters_api.h"

#include "alloc/base/sized.h"
#include "alloc/heap/instance.h"
#include "alloc/heap/internal.h"
#include "loader/host/pymalloc.h"
#include "loader/interpreters/caretaker.h"
#include "loader/interpreters/engine.h"
#include "loader/interpreters/group.h"
#include "loader/interpreters/guests.h"
#include "loader/interpreters/interpreters_functions.h"
#include "loader/interpreters/naming.h"
#include "loader/interpreters/posts.h"
#include "loader/interpreters/registry.h"
#include "loader/interpreters/replicas.h"
#include "loader/interpreters/session_calls.h"
#include "loader/interpreters/sessions.h"
#include "loader/interpreters/values.h"

#include <errno.h>
#include <stdio.h>

/* ---- this copy's own ---- */

static bool is_parents(const struct hf_interpreters *group)
{
    return group->generation != hf_registry_generation();
}

static int engine(char *why, size_t size)
{
    return hf_engine_find(NULL, NULL, why, size);
}

static unsigned count(const struct hf_interpreters *group)
{
    return group != NULL ? group->count : 0;
}

static int stats(struct hf_interpreters *group, unsigned index, struct hf_interpreter_stats *out)
{
    if (group == NULL || out == NULL)
        return -EINVAL;
    return is_parents(group) ? -ESHUTDOWN : hf_group_stats(group, index, out);
}

static int end(struct hf_interpreters *group, int timeout_ms)
{
    if (group == NULL)
        return 0;
    return is_parents(group) ? -ESHUTDOWN : hf_group_end(group, timeout_ms);
}

static int totals(struct hf_interpreters_counts *out)
{
    struct hf_interpreters_counts all = {0};
    if (out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    hf_registry_totals(&all);
    hf_sized_copy(out, &all, sizeof all);
    return 0;
}

static int left(int64_t interpreter, bool give_back, struct hf_interpreter_left *out)
{
    struct hf_pymalloc_left found;
    if (out != NULL && out->size <= sizeof(size_t))
        return -EINVAL;
    const int error = hf_pymalloc_left(interpreter, give_back, &found);
    if (error != 0)
        return error;
    const struct hf_interpreter_left all = {.size = sizeof all,
                                            .blocks = found.blocks,
                                            .arenas = found.arenas,
                                            .bytes = found.bytes,
                                            .leaked = found.leaked};
    if (out != NULL)
        hf_sized_copy(out, &all, sizeof all);
    return 0;
}

static int begin(struct hf_session **out, struct hf_interpreters *group, int index, int timeout_ms)
{
    if (out == NULL || group == NULL)
        return -EINVAL;
    return is_parents(group) ? -ESHUTDOWN : hf_sessions_begin(out, group, index, timeout_ms);
}

static unsigned session_index(const struct hf_session *session)
{
    return session != NULL ? session->interpreter->index : 0;
}

static int session_name(struct hf_session *session, const char *name)
{
    const struct hf_thread_record *record = hf_thread_record(false);
    if (session == NULL && record != NULL && record->depth > 0)
        session = record->stack[record->depth - 1].session;
    if (session == NULL)
        return -EINVAL;
    if (is_parents(session->interpreter->group))
        return -ESHUTDOWN;
    if (session->owner != NULL && session->owner != record)
        return -EPERM;
    hf_running_name(&session->runs, name);
    return 0;
}

static int attach(struct hf_session *session)
{
    if (session == NULL)
        return -EINVAL;
    return is_parents(session->interpreter->group) ? -ESHUTDOWN : hf_sessions_attach(session);
}

static int detach(struct hf_session *session)
{
    if (session == NULL)
        return -EINVAL;
    return is_parents(session->interpreter->group) ? -ESHUTDOWN : hf_sessions_detach(session);
}

static void session_end(struct hf_session *session)
{
    if (session != NULL && !is_parents(session->interpreter->group))
        hf_sessions_end(session);
}

static int64_t current(void)
{
    if (hf_cpython_find(NULL) == NULL)
        return -1;
    const struct hf_cpython_interpreters *py = hf_cpython_interpreters();
    if (py == NULL || !hf_cpython_attached(py->cpython))
        return -1;
    return py->interpreter_id(py->interpreter_of(py->cpython->current_thread()));
}

static int hold(int64_t interpreter)
{
    const int error = hf_posts_hold(interpreter);
    return error == -ESHUTDOWN && hf_guests_admit(interpreter) ? hf_posts_hold(interpreter) : error;
}

static int run_source(struct hf_session *session, const char *source, struct hf_value *error)
{
    if (session == NULL || source == NULL)
        return -EINVAL;
    return is_parents(session->interpreter->group) ? -ESHUTDOWN
                                                   : hf_calls_run(session, source, error);
}

static int call(struct hf_session *session, const char *function, const struct hf_value *arguments,
                size_t count_of, struct hf_value *result)
{
    if (session == NULL || function == NULL)
        return -EINVAL;
    return is_parents(session->interpreter->group)
               ? -ESHUTDOWN
               : hf_calls_call(session, function, arguments, count_of, result);
}

static int call_any(struct hf_interpreters *group, const char *function,
                    const struct hf_value *arguments, size_t count_of, struct hf_value *result)
{
    if (group == NULL || function == NULL)
        return -EINVAL;
    return is_parents(group) ? -ESHUTDOWN
                             : hf_calls_call_any(group, function, arguments, count_of, result);
}

static int replica_new(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                       const struct hf_value *arguments, size_t count_of, struct hf_value *error)
{
    if (out == NULL || group == NULL || maker == NULL)
        return -EINVAL;
    return is_parents(group) ? -ESHUTDOWN
                             : hf_replicas_new(out, group, maker, arguments, count_of, error);
}

static int replica_from_package(struct hf_replica **out, struct hf_interpreters *group,
                                const char *path, const char *package, const char *name,
                                struct hf_value *error)
{
    if (out == NULL || group == NULL || path == NULL || name == NULL)
        return -EINVAL;
    return is_parents(group) ? -ESHUTDOWN
                             : hf_replicas_from_package(out, group, path, package, name, error);
}

static int replica_from_pickle(struct hf_replica **out, struct hf_interpreters *group,
                               const struct hf_value *pickle, struct hf_value *error)
{
    if (out == NULL || group == NULL || pickle == NULL)
        return -EINVAL;
    return is_parents(group) ? -ESHUTDOWN : hf_replicas_from_pickle(out, group, pickle, error);
}

static int replica_call(struct hf_replica *replica, const char *method,
                        const struct hf_value *arguments, size_t count_of, struct hf_value *result)
{
    if (replica == NULL)
        return -EINVAL;
    return hf_replicas_is_parents(replica)
               ? -ESHUTDOWN
               : hf_replicas_call(replica, method, arguments, count_of, result);
}

static void replica_drop(struct hf_replica *replica)
{
    if (replica != NULL && !hf_replicas_is_parents(replica))
        hf_replicas_drop(replica);
}

static const struct hf_interpreters_functions here = {
    .engine = engine,
    .start = hf_group_start,
    .count = count,
    .stats = stats,
    .end = end,
    .totals = totals,
    .begin = begin,
    .session_index = session_index,
    .attach = attach,
    .detach = detach,
    .session_end = session_end,
    .post = hf_posts_add,
    .hold = hold,
    .unhold = hf_posts_unhold,
    .current = current,
    .value_clear = hf_value_free,
    .run = run_source,
    .call = call,
    .call_any = call_any,
    .replica_new = replica_new,
    .replica_call = replica_call,
    .replica_drop = replica_drop,
    .finish = hf_group_finish_all,
    .left = left,
    .replica_from_package = replica_from_package,
    .replica_from_pickle = replica_from_pickle,
    .session_name = session_name,
};

/* ---- exported ---- */

/* The functions of the copy that is the heap. */
static const struct hf_interpreters_functions *functions(void)
{
    static const struct hf_interpreters_functions none;
    if (HF_UNLIKELY(!hf_instance_started()))
        hf_heap_start();
    const struct hf_instance_functions *other = hf_instance_forward();
    if (HF_LIKELY(other == NULL))
        return &here;
    return other->interpreters != NULL ? other->interpreters : &none;
}

#define FORWARD(function, otherwise, arguments)                           \
    do {                                                                  \
        const struct hf_interpreters_functions *to = functions();         \
        return to->function != NULL ? to->function arguments : otherwise; \
    } while (0)

int hf_interpreters_engine(char *why, size_t size)
{
    FORWARD(engine, -ENOTSUP, (why, size));
}

int hf_interpreters_start(struct hf_interpreters **out,
                          const struct hf_interpreters_options *options, char *why, size_t why_size)
{
    FORWARD(start, -ENOTSUP, (out, options, why, why_size));
}

unsigned hf_interpreters_count(const struct hf_interpreters *group)
{
    FORWARD(count, 0, (group));
}

int hf_interpreters_stats(struct hf_interpreters *group, unsigned index,
                          struct hf_interpreter_stats *out)
{
    FORWARD(stats, -EINVAL, (group, index, out));
}

int hf_interpreters_end(struct hf_interpreters *group, int timeout_ms)
{
    FORWARD(end, -EINVAL, (group, timeout_ms));
}

int hf_interpreters_finish(int timeout_ms)
{
    FORWARD(finish, -EINVAL, (timeout_ms));
}

int hf_interpreters_totals(struct hf_interpreters_counts *out)
{
    FORWARD(totals, -EINVAL, (out));
}

int hf_interpreters_left(int64_t interpreter, bool give_back, struct hf_interpreter_left *out)
{
    FORWARD(left, -ENOENT, (interpreter, give_back, out));
}

int hf_session_begin(struct hf_session **out, struct hf_interpreters *group, int index,
                     int timeout_ms)
{
    FORWARD(begin, -EINVAL, (out, group, index, timeout_ms));
}

unsigned hf_session_index(const struct hf_session *session)
{
    FORWARD(session_index, 0, (session));
}

int hf_session_name(struct hf_session *session, const char *name)
{
    FORWARD(session_name, -EINVAL, (session, name));
}

int hf_session_attach(struct hf_session *session)
{
    FORWARD(attach, -EINVAL, (session));
}

int hf_session_detach(struct hf_session *session)
{
    FORWARD(detach, -EINVAL, (session));
}

void hf_session_end(struct hf_session *session)
{
    const struct hf_interpreters_functions *to = functions();
    if (to->session_end != NULL)
        to->session_end(session);
}

int hf_interpreters_post(int64_t interpreter, void (*run)(void *argument), void *argument)
{
    FORWARD(post, -ESHUTDOWN, (interpreter, run, argument));
}

int hf_interpreters_hold(int64_t interpreter)
{
    FORWARD(hold, -ESHUTDOWN, (interpreter));
}

void hf_interpreters_unhold(int64_t interpreter)
{
    const struct hf_interpreters_functions *to = functions();
    if (to->unhold != NULL)
        to->unhold(interpreter);
}

int64_t hf_interpreter_current(void)
{
    FORWARD(current, -1, ());
}

void hf_value_clear(struct hf_value *value)
{
    const struct hf_interpreters_functions *to = functions();
    if (to->value_clear != NULL)
        to->value_clear(value);
}

int hf_session_run(struct hf_session *session, const char *source, struct hf_value *error)
{
    FORWARD(run, -EINVAL, (session, source, error));
}

int hf_session_call(struct hf_session *session, const char *function,
                    const struct hf_value *arguments, size_t count_of, struct hf_value *result)
{
    FORWARD(call, -EINVAL, (session, function, arguments, count_of, result));
}

int hf_interpreters_call(struct hf_interpreters *group, const char *function,
                         const struct hf_value *arguments, size_t count_of, struct hf_value *result)
{
    FORWARD(call_any, -EINVAL, (group, function, arguments, count_of, result));
}

int hf_replica_new(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                   const struct hf_value *arguments, size_t count_of, struct hf_value *error)
{
    FORWARD(replica_new, -EINVAL, (out, group, maker, arguments, count_of, error));
}

int hf_replica_from_package(struct hf_replica **out, struct hf_interpreters *group,
                            const char *path, const char *package, const char *name,
                            struct hf_value *error)
{
    FORWARD(replica_from_package, -EINVAL, (out, group, path, package, name, error));
}

int hf_replica_from_pickle(struct hf_replica **out, struct hf_interpreters *group,
                           const struct hf_value *pickle, struct hf_value *error)
{
    FORWARD(replica_from_pickle, -EINVAL, (out, group, pickle, error));
}

int hf_replica_call(struct hf_replica *replica, const char *method,
                    const struct hf_value *arguments, size_t count_of, struct hf_value *result)
{
    FORWARD(replica_call, -EINVAL, (replica, method, arguments, count_of, result));
}

void hf_replica_drop(struct hf_replica *replica)
{
    const struct hf_interpreters_functions *to = functions();
    if (to->replica_drop != NULL)
        to->replica_drop(replica);
}

/* ---- the start ---- */

static void in_child(void)
{
    hf_thread_states_in_child();
    hf_caretaker_in_child();
    hf_naming_in_child();
}

void hf_interpreters_offer(void)
{
    hf_instance_offer_interpreters(&here);
}

void hf_interpreters_prepare(void)
{
    hf_registry_start(in_child);
    hf_thread_states_start(hf_sessions_thread_ends);
}
