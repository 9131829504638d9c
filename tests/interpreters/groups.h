/*
 * What the tests of groups of interpreters share: a CPython that is loaded into the test's process,
 * and groups and calls in it that must work.
 */
#ifndef HOMEFREE_TESTS_INTERPRETERS_GROUPS_H
#define HOMEFREE_TESTS_INTERPRETERS_GROUPS_H

#include "library.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/interpreters.h>
#include <string.h>

static const char *libpython;

static inline void load_python(void)
{
    (void)load(libpython, RTLD_NOW | RTLD_GLOBAL);
}

/* Whether the interpreters of a group are all the main one: this CPython has no GIL. */
static inline bool is_one_interpreter(void)
{
    return hf_interpreters_engine(NULL, 0) == HF_ENGINE_THREADS;
}

#define PYTHON(result, name, parameters) (*(result(*) parameters)dlsym(RTLD_DEFAULT, #name))

static inline struct hf_interpreters *group_of(unsigned count, const char *set_up)
{
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {
        .size = sizeof options, .count = count, .set_up = set_up};
    char why[512] = "?";
    int error = hf_interpreters_start(&group, &options, why, sizeof why);
    ck_assert_msg(error == 0, "hf_interpreters_start(): %s: %s", strerror(-error), why);
    ck_assert_str_eq(why, "");
    return group;
}

static inline struct hf_session *session_of(struct hf_interpreters *group, int index)
{
    struct hf_session *session = NULL;
    ck_assert_int_eq(hf_session_begin(&session, group, index, 0), 0);
    return session;
}

/* Calls a function with one argument, or none if it is NULL; it must not raise anything. */
static inline struct hf_value result_of(struct hf_interpreters *group, int index,
                                        const char *function, const struct hf_value *argument)
{
    struct hf_value result;
    struct hf_session *session = session_of(group, index);
    int error = hf_session_call(session, function, argument, argument != NULL, &result);
    ck_assert_msg(error == 0, "%s: %s", function,
                  result.kind == HF_VALUE_ERROR ? result.as.error->traceback : strerror(-error));
    hf_session_end(session);
    return result;
}

static inline struct hf_interpreter_stats stats_of(struct hf_interpreters *group, unsigned index)
{
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_interpreters_stats(group, index, &stats), 0);
    return stats;
}

static inline struct hf_interpreters_counts totals_now(void)
{
    struct hf_interpreters_counts counts = {.size = sizeof counts};
    ck_assert_int_eq(hf_interpreters_totals(&counts), 0);
    return counts;
}

static inline void run(struct hf_session *session, const char *source)
{
    struct hf_value error;
    int result = hf_session_run(session, source, &error);
    ck_assert_msg(result == 0, "%s: %s", source,
                  error.kind == HF_VALUE_ERROR ? error.as.error->traceback : strerror(-result));
}

/* Calls a function without arguments that returns an integer. */
static inline int64_t number_of(struct hf_interpreters *group, const char *function)
{
    struct hf_value result;
    ck_assert_int_eq(hf_interpreters_call(group, function, NULL, 0, &result), 0);
    ck_assert_int_eq(result.kind, HF_VALUE_INT);
    return result.as.integer;
}

#endif
