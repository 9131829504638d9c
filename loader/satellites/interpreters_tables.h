/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libhomefree and the satellite libhomefree-interpreters.so call of each other. Owns nothing.
 */
#ifndef HOMEFREE_LOADER_SATELLITES_INTERPRETERS_TABLES_H
#define HOMEFREE_LOADER_SATELLITES_INTERPRETERS_TABLES_H

#include "loader/host/cpython.h"
#include "loader/record/crash_place.h"

#include <homefree/homefree.h>
#include <homefree/interpreters.h>

/* What diagnostics mode wants of the interpreters; otherwise all of it is 0. */
struct hf_interpreters_observer {
    bool names_crashes;                 /* of every group */
    void (*moved)(int64_t interpreter); /* the calling thread works there, by CPython's number; 0:
                                         * in no interpreter that is known */
    void (*ended)(int64_t interpreter);
};

/* The core's functions. */
struct hf_interpreters_core {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void (*free)(void *ptr);
    const struct hf_cpython *(*cpython)(void);
    const struct hf_cpython *(*cpython_find)(const void *anchor);
    const struct hf_cpython_interpreters *(*cpython_interpreters)(void);
    bool (*cpython_attached)(const struct hf_cpython *cpython);
    int (*python_install)(const struct hf_python_options *options, struct hf_python_state *out);
    int (*python_share)(const void *array, struct hf_release **out);
    int (*release_new_attempt)(struct hf_release **out, void *pointer,
                               int (*attempt)(void *pointer), const char *name);
    void (*release_take)(struct hf_release *release);
    void (*release_drop)(struct hf_release *release);
    void (*search_place)(const struct hf_frame *crash, struct hf_doctor_place *out);
    /* The calling thread, attached to the main one, is about to make one, which counts what it has
     * if there is a limit (0: none), and is attached to it; -1: it could not be made. */
    int (*begins)(uint64_t memory_limit);
    void (*begun)(int64_t interpreter);
    /* It may have so much from now on: -ENOMEM if it has more. */
    int (*limit)(int64_t interpreter, uint64_t most);
    void (*unlimit)(int64_t interpreter); /* the calling thread is attached to it */
    bool (*measure)(struct hf_interpreter_memory *rows, size_t count);
    void (*ended)(int64_t interpreter);              /* nobody is in it any more */
    void (*entered)(int64_t interpreter);            /* the calling thread begins to work in it */
    const struct hf_interpreters_observer *observer; /* filled before a satellite is opened */
};

/* The satellite's: those of homefree/interpreters.h, but for `keep`, `left`, `leaks`, `current`,
 * `limit` and `limit_object`, which are the core's own. Instances of libhomefree offer each other
 * the same table, complete: append only. */
struct hf_interpreters_functions {
    int (*engine)(char *why, size_t size);
    int (*start)(struct hf_interpreters **out, const struct hf_interpreters_options *options,
                 char *why, size_t why_size);
    unsigned (*count)(const struct hf_interpreters *group);
    int (*stats)(struct hf_interpreters *group, unsigned index, struct hf_interpreter_stats *out);
    int (*end)(struct hf_interpreters *group, int timeout_ms);
    int (*totals)(struct hf_interpreters_counts *out);
    int (*begin)(struct hf_session **out, struct hf_interpreters *group, int index, int timeout_ms);
    unsigned (*session_index)(const struct hf_session *session);
    int (*attach)(struct hf_session *session);
    int (*detach)(struct hf_session *session);
    void (*session_end)(struct hf_session *session);
    int (*post)(int64_t interpreter, void (*run)(void *argument), void *argument);
    int (*hold)(int64_t interpreter);
    void (*unhold)(int64_t interpreter);
    int64_t (*current)(void);
    void (*value_clear)(struct hf_value *value);
    int (*run)(struct hf_session *session, const char *source, struct hf_value *error);
    int (*call)(struct hf_session *session, const char *function, const struct hf_value *arguments,
                size_t count, struct hf_value *result);
    int (*call_any)(struct hf_interpreters *group, const char *function,
                    const struct hf_value *arguments, size_t count, struct hf_value *result);
    int (*replica_new)(struct hf_replica **out, struct hf_interpreters *group, const char *maker,
                       const struct hf_value *arguments, size_t count, struct hf_value *error);
    int (*replica_call)(struct hf_replica *replica, const char *method,
                        const struct hf_value *arguments, size_t count, struct hf_value *result);
    void (*replica_drop)(struct hf_replica *replica);
    int (*finish)(int timeout_ms);
    int (*keep)(int64_t interpreter, void *handle);
    int (*left)(int64_t interpreter, bool give_back, struct hf_interpreter_left *out);
    int (*replica_from_package)(struct hf_replica **out, struct hf_interpreters *group,
                                const char *path, const char *package, const char *name,
                                struct hf_value *error);
    int (*replica_from_pickle)(struct hf_replica **out, struct hf_interpreters *group,
                               const struct hf_value *pickle, struct hf_value *error);
    int (*session_name)(struct hf_session *session, const char *name);
    int (*memory)(hf_interpreter_memory_visitor *visit, void *context);
    int (*limit)(int64_t interpreter, uint64_t bytes);
    int (*limit_object)(int64_t interpreter, void *handle);
    int (*leaks)(hf_interpreter_leak_visitor *visit, void *context);
};

#endif
