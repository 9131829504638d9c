/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the core calls of this satellite: each function checks what it is given. Owns nothing.
 */
#include "alloc/base/sized.h"
#include "alloc/build_stamp.h"
#include "loader/satellites/interpreters_tables.h"
#include "satellites/interpreters/engine.h"
#include "satellites/interpreters/group.h"
#include "satellites/interpreters/guests.h"
#include "satellites/interpreters/interpreter_crashes.h"
#include "satellites/interpreters/interpreters_core.h"
#include "satellites/interpreters/naming.h"
#include "satellites/interpreters/owner_thread.h"
#include "satellites/interpreters/posts.h"
#include "satellites/interpreters/registry.h"
#include "satellites/interpreters/replicas.h"
#include "satellites/interpreters/session_calls.h"
#include "satellites/interpreters/sessions.h"
#include "satellites/interpreters/values.h"

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

static int memory(hf_interpreter_memory_visitor *visit, void *context)
{
    if (visit == NULL)
        return -EINVAL;
    size_t count = hf_registry_list(NULL, 0);
    struct hf_interpreter_memory *rows = hf_calloc(count, sizeof *rows);
    if (rows == NULL)
        return -ENOMEM;
    const size_t now = hf_registry_list(rows, count);
    count = now < count ? now : count;
    int result = hf_core()->measure(rows, count) ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && result == 0; i++)
        result = visit(context, &rows[i]);
    hf_free(rows);
    return result;
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
    .value_clear = hf_value_free,
    .run = run_source,
    .call = call,
    .call_any = call_any,
    .replica_new = replica_new,
    .replica_call = replica_call,
    .replica_drop = replica_drop,
    .finish = hf_group_finish_all,
    .replica_from_package = replica_from_package,
    .replica_from_pickle = replica_from_pickle,
    .session_name = session_name,
    .memory = memory,
};

/* ---- the start ---- */

static void in_child(void)
{
    hf_thread_states_in_child();
    hf_owner_thread_in_child();
    hf_naming_in_child();
}

static void start(void)
{
    hf_registry_start(in_child);
    hf_thread_states_start(hf_sessions_thread_ends);
    hf_naming_offer(hf_interpreter_crashes_install, hf_interpreter_crashes_remove);
}

HF_SATELLITE_WITH(interpreters, here, start);
