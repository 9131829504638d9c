/*
 * Sessions: which thread uses which interpreter, over which other one, and until when.
 *
 * usage: test_sessions LIBPYTHON
 */
#include "groups.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

static struct hf_interpreters *group;

START_TEST(attachments_nest)
{
    load_python();
    group = group_of(2, NULL);
    struct hf_session *first = session_of(group, 0), *second = session_of(group, 1);
    const int64_t one = stats_of(group, 0).id, two = stats_of(group, 1).id;
    ck_assert_int_eq(hf_session_attach(first), 0);
    ck_assert_int_eq(hf_session_attach(second), 0);
    ck_assert_int_eq(hf_interpreter_current(), two);
    ck_assert_int_eq(hf_session_attach(first), 0);
    ck_assert_int_eq(hf_interpreter_current(), one);
    ck_assert_int_eq(hf_session_attach(first), 0);
    ck_assert_int_eq(hf_interpreter_current(), one);
    ck_assert_int_eq(hf_session_detach(second), -EINVAL);
    ck_assert_int_eq(hf_session_detach(first), 0);
    ck_assert_int_eq(hf_interpreter_current(), one);
    ck_assert_int_eq(hf_session_detach(first), 0);
    ck_assert_int_eq(hf_interpreter_current(), two);
    ck_assert_int_eq(hf_session_detach(second), 0);
    ck_assert_int_eq(hf_interpreter_current(), one);
    ck_assert_int_eq(hf_session_detach(first), 0);
    ck_assert_int_eq(hf_interpreter_current(), -1);
    ck_assert_int_eq(hf_session_detach(first), -EINVAL);
    hf_session_end(second);
    hf_session_end(first);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(a_session_over_the_main_interpreter)
{
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    group = group_of(1, NULL);
    struct hf_session *session = session_of(group, 0);
    void *before = PYTHON(void *, PyThreadState_Get, (void))();
    ck_assert_int_eq(hf_session_attach(session), 0);
    ck_assert_int_eq(PYTHON(void *, PyThreadState_Get, (void))() == before, is_one_interpreter());
    /* Code that knows nothing of sessions gets the session's interpreter, not the main one. */
    const int state = PYTHON(int, PyGILState_Ensure, (void))();
    ck_assert_int_eq(hf_interpreter_current(), stats_of(group, 0).id);
    PYTHON(void, PyGILState_Release, (int))(state);
    hf_session_end(session);
    ck_assert_ptr_eq(PYTHON(void *, PyThreadState_Get, (void))(), before);
    ck_assert_int_eq(PYTHON(int, PyGILState_Check, (void))(), 1);
    ck_assert_int_eq(PYTHON(int, PyRun_SimpleString, (const char *))("import json"), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(a_detached_thread_of_the_main_interpreter_stays_its)
{
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    group = group_of(1, NULL);
    struct hf_session *session = session_of(group, 0);
    void *own = PYTHON(void *, PyEval_SaveThread, (void))();
    ck_assert_int_eq(hf_session_attach(session), 0);
    ck_assert_int_eq(hf_session_detach(session), 0);
    const int state = PYTHON(int, PyGILState_Ensure, (void))();
    ck_assert_int_eq(hf_interpreter_current(), 0);
    ck_assert_ptr_eq(PYTHON(void *, PyThreadState_Get, (void))(), own);
    PYTHON(void, PyGILState_Release, (int))(state);
    hf_session_end(session);
    PYTHON(void, PyEval_RestoreThread, (void *))(own);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

/* ---- other threads ---- */

static void *attach_others(void *argument)
{
    return (void *)(intptr_t)hf_session_attach(argument);
}

static void *end_others(void *argument)
{
    hf_session_end(argument);
    return NULL;
}

static void *in_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, function, argument), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

START_TEST(a_session_belongs_to_its_thread)
{
    load_python();
    group = group_of(1, NULL);
    struct hf_session *session = session_of(group, 0);
    run(session, "kept = 1");
    ck_assert_int_eq((intptr_t)in_thread(attach_others, session), -EPERM);
    (void)in_thread(end_others, session);
    /* It ends as soon as its thread comes by. */
    ck_assert_int_eq(stats_of(group, 0).sessions, 1);
    struct hf_session *next = session_of(group, 0);
    run(next, "assert kept == 1");
    ck_assert_int_eq(stats_of(group, 0).sessions, 1);
    hf_session_end(next);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

static void *leave_sessions(void *argument)
{
    (void)argument;
    for (int i = 0; i < 3; i++) {
        struct hf_session *session = session_of(group, i % 2);
        run(session, "import json");
        if (i == 2)
            ck_assert_int_eq(hf_session_attach(session), 0);
    }
    return NULL;
}

START_TEST(a_thread_that_ends_takes_its_sessions_along)
{
    load_python();
    group = group_of(2, NULL);
    (void)in_thread(leave_sessions, NULL);
    ck_assert_int_eq(stats_of(group, 0).sessions, 0);
    ck_assert_int_eq(stats_of(group, 1).sessions, 0);
    ck_assert_int_eq(number_of(group, "builtins:int"), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

/* ---- many threads ---- */

enum { THREADS = 16, CALLS = 200 };

static void *call_often(void *argument)
{
    (void)argument;
    for (int i = 0; i < CALLS; i++)
        ck_assert_int_eq(number_of(group, "__main__:work"), 5050);
    return NULL;
}

START_TEST(calls_are_spread)
{
    pthread_t threads[THREADS];
    uint64_t all = 0;
    load_python();
    group = group_of(4, "def work(): return sum(range(101))");
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        const uint64_t calls = stats_of(group, i).calls;
        ck_assert_int_eq(stats_of(group, i).sessions, 0);
        ck_assert_uint_gt(calls, THREADS * CALLS / 4 / 10);
        all += calls;
    }
    ck_assert_uint_eq(all, (uint64_t)THREADS * CALLS);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(the_least_loaded_is_chosen)
{
    struct hf_session *sessions[6];
    bool taken[3] = {false, false, false};
    load_python();
    group = group_of(3, NULL);
    for (int i = 0; i < 3; i++) {
        sessions[i] = session_of(group, -1);
        ck_assert(!taken[hf_session_index(sessions[i])]);
        taken[hf_session_index(sessions[i])] = true;
    }
    const unsigned second = hf_session_index(sessions[1]);
    hf_session_end(sessions[1]);
    sessions[1] = session_of(group, -1);
    ck_assert_uint_eq(hf_session_index(sessions[1]), second);
    for (int i = 0; i < 3; i++)
        hf_session_end(sessions[i]);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

static void *wait_for_one(void *argument)
{
    struct hf_session *session = NULL;
    const int error = hf_session_begin(&session, group, -1, -1);
    hf_session_end(session);
    (void)argument;
    return (void *)(intptr_t)error;
}

START_TEST(who_waits_gets_a_free_one)
{
    struct hf_session *session = NULL, *busy;
    pthread_t thread;
    void *error;
    load_python();
    group = group_of(1, NULL);
    busy = session_of(group, 0);
    ck_assert_int_eq(hf_session_begin(&session, group, -1, 20), -ETIMEDOUT);
    ck_assert_ptr_null(session);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_one, NULL), 0);
    while (stats_of(group, 0).waiting == 0)
        sched_yield();
    hf_session_end(busy);
    ck_assert_int_eq(pthread_join(thread, &error), 0);
    ck_assert_int_eq((intptr_t)error, 0);
    /* And is told when there will be none. */
    busy = session_of(group, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_one, NULL), 0);
    while (stats_of(group, 0).waiting == 0)
        sched_yield();
    hf_session_end(busy);
    ck_assert_int_eq(pthread_join(thread, &error), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

/* ---- posts ---- */

static int64_t ran_in[64];
static atomic_int ran;

static void note(void *argument)
{
    ran_in[(intptr_t)argument] = hf_interpreter_current();
    atomic_fetch_add(&ran, 1);
}

START_TEST(posts_run_in_their_interpreter)
{
    load_python();
    group = group_of(2, NULL);
    for (intptr_t i = 0; i < 60; i++) {
        const int64_t to = i % 3 == 0 ? 0 : stats_of(group, i % 3 == 1).id;
        ck_assert_int_eq(hf_interpreters_post(to, note, (void *)i), 0);
    }
    while (atomic_load(&ran) < 60)
        sched_yield();
    for (int i = 0; i < 60; i++)
        ck_assert_int_eq(ran_in[i], i % 3 == 0 ? 0 : stats_of(group, i % 3 == 1).id);
    /* Whoever attaches runs them as well. */
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_attach(session), 0);
    ck_assert_int_eq(hf_interpreters_post(stats_of(group, 0).id, note, (void *)(intptr_t)61), 0);
    ck_assert_int_eq(hf_session_detach(session), 0);
    while (atomic_load(&ran) < 61)
        sched_yield();
    const int64_t id = stats_of(group, 0).id;
    hf_session_end(session);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(hf_interpreters_post(id, note, NULL), is_one_interpreter() ? 0 : -ESHUTDOWN);
}
END_TEST

static void recurse(void)
{
    static const char source[] = "x = []\n"
                                 "for _ in range(200_000):\n"
                                 "    x = [x]\n"
                                 "try:\n"
                                 "    repr(x)\n"
                                 "    raise AssertionError\n"
                                 "except RecursionError:\n"
                                 "    pass\n";
    struct hf_session *session = session_of(group, 0);
    run(session, source);
    hf_session_end(session);
}

static void *recurse_in_thread(void *unused)
{
    recurse();
    return unused;
}

/* CPython 3.14 looks at the stack itself, and a session says where that is. */
START_TEST(c_code_that_recurses_for_ever)
{
    pthread_t thread;
    pthread_attr_t attributes;
    load_python();
    group = group_of(1, NULL);
    recurse();
    recurse();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 2 << 20);
    ck_assert_int_eq(pthread_create(&thread, &attributes, recurse_in_thread, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(attachments_nest, a_session_over_the_main_interpreter,
                     a_detached_thread_of_the_main_interpreter_stays_its,
                     a_session_belongs_to_its_thread, a_thread_that_ends_takes_its_sessions_along,
                     calls_are_spread, the_least_loaded_is_chosen, who_waits_gets_a_free_one,
                     posts_run_in_their_interpreter, c_code_that_recurses_for_ever);
}
