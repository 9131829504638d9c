/*
 * Groups are made, described and ended; what is wrong is said.
 *
 * usage: test_groups LIBPYTHON
 */
#include "groups.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

START_TEST(a_group_has_interpreters)
{
    load_python();
    struct hf_interpreters *group = group_of(3, "answer = 42");
    ck_assert_int_eq(hf_interpreters_count(group), 3);
    for (unsigned i = 0; i < 3; i++) {
        struct hf_interpreter_stats stats = stats_of(group, i);
        ck_assert_int_eq(stats.state, HF_INTERPRETER_RUNNING);
        ck_assert_int_eq(stats.id == 0, is_one_interpreter());
        ck_assert_int_eq(stats.sessions, 0);
        struct hf_session *session = session_of(group, (int)i);
        ck_assert_int_eq(hf_session_index(session), i);
        ck_assert_int_eq(stats_of(group, i).sessions, 1);
        ck_assert_int_eq(hf_session_attach(session), 0);
        ck_assert_int_eq(hf_interpreter_current(), stats.id);
        ck_assert_int_eq(hf_session_detach(session), 0);
        ck_assert_int_eq(hf_interpreter_current(), -1);
        run(session, "import json; assert answer == 42");
        run(session, is_one_interpreter() ? "answer = 42" : "answer = 1");
        ck_assert_int_eq(stats_of(group, i).calls, 3);
        hf_session_end(session);
    }
    ck_assert_int_eq(totals_now().running, 3);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(totals_now().running, 0);
    ck_assert_int_eq(totals_now().ended, 3);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct hf_session *session = NULL;
    struct hf_interpreters *group = NULL;
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    struct hf_interpreters_options options = {.size = sizeof(size_t)};
    struct hf_value value = {.kind = (enum hf_value_kind)77};
    struct hf_replica *replica;
    load_python();
    ck_assert_int_eq(hf_interpreters_start(NULL, NULL, NULL, 0), -EINVAL);
    ck_assert_int_eq(hf_interpreters_start(&group, &options, NULL, 0), -EINVAL);
    options = (struct hf_interpreters_options){.size = sizeof options, .count = 1025};
    ck_assert_int_eq(hf_interpreters_start(&group, &options, NULL, 0), -EINVAL);
    ck_assert_ptr_null(group);
    ck_assert_int_eq(hf_interpreters_count(NULL), 0);
    ck_assert_int_eq(hf_interpreters_end(NULL, 0), 0);
    ck_assert_int_eq(hf_interpreters_stats(NULL, 0, &stats), -EINVAL);
    ck_assert_int_eq(hf_interpreters_totals(NULL), -EINVAL);
    ck_assert_int_eq(hf_session_begin(&session, NULL, -1, 0), -EINVAL);
    ck_assert_int_eq(hf_session_attach(NULL), -EINVAL);
    ck_assert_int_eq(hf_session_detach(NULL), -EINVAL);
    ck_assert_int_eq(hf_session_run(NULL, "", NULL), -EINVAL);
    ck_assert_int_eq(hf_session_call(NULL, "a:b", NULL, 0, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_call(NULL, "a:b", NULL, 0, NULL), -EINVAL);
    ck_assert_int_eq(hf_replica_new(&replica, NULL, "a:b", NULL, 0, NULL), -EINVAL);
    ck_assert_int_eq(hf_replica_call(NULL, NULL, NULL, 0, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_post(0, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_hold(77), -ESHUTDOWN);
    hf_interpreters_unhold(77);
    hf_session_end(NULL);
    hf_replica_drop(NULL);
    hf_value_clear(NULL);
    group = group_of(1, NULL);
    ck_assert_int_eq(hf_interpreters_stats(group, 1, &stats), -EINVAL);
    stats.size = sizeof(size_t);
    ck_assert_int_eq(hf_interpreters_stats(group, 0, &stats), -EINVAL);
    ck_assert_int_eq(hf_session_begin(&session, group, 1, 0), -EINVAL);
    ck_assert_int_eq(hf_session_begin(&session, group, -2, 0), -EINVAL);
    ck_assert_int_eq(hf_session_begin(NULL, group, -1, 0), -EINVAL);
    ck_assert_int_eq(hf_interpreters_call(group, "nothing", NULL, 0, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_call(group, "a:b", NULL, 1, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_call(group, "a:b", &value, 1, NULL), -EINVAL);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(what_set_up_raises_is_said)
{
    char why[256] = "";
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {
        .size = sizeof options, .count = 2, .set_up = "raise ValueError('not today')"};
    load_python();
    ck_assert_int_eq(hf_interpreters_start(&group, &options, why, sizeof why), -EPROTO);
    ck_assert_str_eq(why, "ValueError: not today");
    options.set_up = "this is no Python";
    ck_assert_int_eq(hf_interpreters_start(&group, &options, why, sizeof why), -EPROTO);
    ck_assert_ptr_nonnull(strstr(why, "SyntaxError: "));
    ck_assert_ptr_null(group);
    ck_assert_int_eq(totals_now().running, 0);
}
END_TEST

/* Its thread is known to nobody but CPython, and the interpreter ends when that does. */
START_TEST(what_set_up_has_started_may_go_on)
{
    char why[256] = "", set_up[256];
    int ends[2];
    struct hf_interpreters *group = NULL;
    struct hf_interpreters_options options = {.size = sizeof options, .count = 1, .set_up = set_up};
    load_python();
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(set_up, sizeof set_up,
             "import os, _thread\n"
             "_thread.start_new_thread(os.read, (%d, 1))\n"
             "raise ValueError('not today')\n",
             ends[0]);
    ck_assert_int_eq(hf_interpreters_start(&group, &options, why, sizeof why), -EPROTO);
    ck_assert_str_eq(why, "ValueError: not today");
    ck_assert_uint_eq(totals_now().running, !is_one_interpreter());
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(hf_interpreters_finish(-1), 0);
    ck_assert_uint_eq(totals_now().running, 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(paths_are_those_of_the_options)
{
    char why[256] = "";
    struct hf_interpreters *group = NULL;
    const char *paths[] = {"/nowhere/at/all", NULL};
    struct hf_interpreters_options options = {.size = sizeof options,
                                              .count = 1,
                                              .paths = paths,
                                              .path_count = 2,
                                              .set_up = "import wave",
                                              .without_package = true};
    load_python();
    ck_assert_int_eq(hf_interpreters_start(&group, &options, why, sizeof why), -EINVAL);
    options.path_count = 1;
    ck_assert_int_eq(hf_interpreters_start(&group, &options, why, sizeof why), -EPROTO);
    ck_assert_str_eq(why, "ModuleNotFoundError: No module named 'wave'");
    options.set_up = "import sys; assert sys.path == ['/nowhere/at/all'], sys.path";
    ck_assert_int_eq(hf_interpreters_start(&group, &options, why, sizeof why), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(paths_are_those_of_the_main_interpreter)
{
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    ck_assert_int_eq(PYTHON(int, PyRun_SimpleString,
                            (const char *))("import sys; sys.path.append('/some/wh\\udce9re')"),
                     0);
    /* The thread stays attached to the main interpreter. */
    struct hf_interpreters *group =
        group_of(1, "import sys; assert '/some/wh\\udce9re' in sys.path, sys.path");
    ck_assert_int_eq(hf_interpreter_current(), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(hf_interpreter_current(), 0);
}
END_TEST

/* ---- ending ---- */

START_TEST(groups_end_in_any_order)
{
    struct hf_interpreters *groups[3];
    const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    load_python();
    for (size_t order = 0; order < 3; order++) {
        for (int i = 0; i < 3; i++)
            groups[i] = group_of(2, "import json\nkeep = [str(i) for i in range(1000)]");
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(number_of(groups[orders[order][i]], "builtins:int"), 0);
            ck_assert_int_eq(hf_interpreters_end(groups[orders[order][i]], -1), 0);
        }
    }
    ck_assert_int_eq(totals_now().ended, 18);
}
END_TEST

static void try_inside(void *argument)
{
    int *errors = argument;
    struct hf_interpreters *group;
    errors[0] = hf_interpreters_start(&group, NULL, NULL, 0);
    __atomic_store_n(&errors[1], 1, __ATOMIC_RELEASE);
}

START_TEST(whoever_would_wait_for_itself_is_refused)
{
    int errors[2] = {0, 0};
    load_python();
    struct hf_interpreters *group = group_of(1, NULL);
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_attach(session), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), -EDEADLK);
    hf_session_end(session);
    if (!is_one_interpreter()) { /* on the owner thread's thread */
        ck_assert_int_eq(hf_interpreters_post(stats_of(group, 0).id, try_inside, errors), 0);
        while (__atomic_load_n(&errors[1], __ATOMIC_ACQUIRE) == 0)
            sched_yield();
        ck_assert_int_eq(errors[0], -EDEADLK);
    }
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(a_group_has_interpreters, wrong_arguments, what_set_up_raises_is_said,
                     what_set_up_has_started_may_go_on, paths_are_those_of_the_options,
                     paths_are_those_of_the_main_interpreter, groups_end_in_any_order,
                     whoever_would_wait_for_itself_is_refused);
}
