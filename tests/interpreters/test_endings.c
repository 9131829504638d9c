/*
 * Interpreters end while they are used, while they hang, and in a forked child; others are
 * unharmed.
 *
 * usage: test_endings LIBPYTHON
 */
#include "groups.h"
#include "process.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hf_interpreters *group, *other;

/* ---- while calls run ---- */

static atomic_int calls, ends;

static void *call_until_the_end(void *argument)
{
    int error = 0;
    while (error == 0) {
        error = hf_interpreters_call(group, "__main__:work", NULL, 0, NULL);
        atomic_fetch_add(&calls, 1);
    }
    atomic_fetch_add(&ends, 1);
    (void)argument;
    return (void *)(intptr_t)error;
}

START_TEST(a_group_ends_while_calls_run)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    void *error;
    load_python();
    group = group_of(2, "def work(): return sum(range(2000))");
    /* Who calls while the group is freed must not use it: what is held keeps it. */
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_until_the_end, NULL), 0);
    while (atomic_load(&calls) < 100)
        sched_yield();
    const bool one = is_one_interpreter();
    const int64_t id = stats_of(group, 0).id;
    struct hf_session *kept = one ? session_of(group, 0) : NULL;
    ck_assert_int_eq(hf_interpreters_hold(id), 0);
    ck_assert_int_eq(hf_interpreters_end(group, one ? 0 : -1), one ? -ETIMEDOUT : 0);
    while (atomic_load(&ends) < THREADS)
        sched_yield();
    hf_interpreters_unhold(id);
    hf_session_end(kept);
    if (one)
        ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &error), 0);
        /* The kept session runs out the time, so a call may have been interrupted. */
        if (!one || (intptr_t)error != -EPROTO)
            ck_assert_int_eq((intptr_t)error, -ESHUTDOWN);
    }
    while (totals_now().ended != 2)
        sched_yield();
}
END_TEST

/* ---- what hangs ---- */

static sem_t in_call, leave_call;

static void *call_loop(void *argument)
{
    struct hf_value result;
    const int error = hf_interpreters_call(group, argument, NULL, 0, &result);
    ck_assert_int_eq(error, -EPROTO);
    ck_assert_int_eq(result.kind, HF_VALUE_ERROR);
    ck_assert_str_eq(result.as.error->type, "SystemExit");
    hf_value_clear(&result);
    return NULL;
}

/* A thread of a pool that is interrupted while it has nothing to do ends, and never answers.
 * Without a GIL, an interrupted call may leave a lock of the module locked for all others. */
START_TEST(calls_that_wait_for_threads_are_interrupted)
{
    enum { ROUNDS = 5, CALLS = 3 };
    pthread_t threads[CALLS];
    load_python();
    if (is_one_interpreter())
        return;
    for (int round = 0; round < ROUNDS; round++) {
        group = group_of(CALLS, "import concurrent.futures\n"
                                "def loop():\n"
                                "    with concurrent.futures.ThreadPoolExecutor(2) as pool:\n"
                                "        while True: pool.submit(int).result()\n");
        for (int i = 0; i < CALLS; i++)
            ck_assert_int_eq(
                pthread_create(&threads[i], NULL, call_loop, (void *)(uintptr_t) "__main__:loop"),
                0);
        for (unsigned i = 0; i < CALLS; i++)
            while (stats_of(group, i).calls == 0)
                ;
        ck_assert_int_eq(hf_interpreters_end(group, 20 * round), 0);
        for (int i = 0; i < CALLS; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
}
END_TEST

START_TEST(a_loop_in_python_is_interrupted)
{
    pthread_t thread;
    load_python();
    group = group_of(1, "def loop():\n"
                        "    while True:\n"
                        "        try:\n"
                        "            for i in range(100): pass\n"
                        "        except Exception: pass\n");
    other = group_of(1, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_loop, (void *)(uintptr_t) "__main__:loop"),
                     0);
    while (stats_of(group, 0).sessions == 0)
        sched_yield();
    ck_assert_int_eq(hf_interpreters_end(group, 50), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(number_of(other, "builtins:int"), 0);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
    ck_assert_uint_eq(totals_now().ended, 2);
}
END_TEST

static void *block_attached(void *argument)
{
    struct hf_session *session = session_of(group, 0);
    ck_assert_int_eq(hf_session_attach(session), 0);
    sem_post(&in_call);
    while (sem_wait(&leave_call) != 0)
        ;
    hf_session_end(session);
    return argument;
}

START_TEST(a_call_that_blocks_in_c_is_left_alone)
{
    pthread_t thread;
    struct hf_session *session = NULL;
    sem_init(&in_call, 0, 0);
    sem_init(&leave_call, 0, 0);
    load_python();
    group = group_of(2, NULL);
    other = group_of(1, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, block_attached, NULL), 0);
    while (sem_wait(&in_call) != 0)
        ;
    ck_assert_int_eq(hf_interpreters_end(group, 20), -ETIMEDOUT);
    ck_assert_int_eq(stats_of(group, 0).state, HF_INTERPRETER_HUNG);
    ck_assert_int_eq(stats_of(group, 1).state, HF_INTERPRETER_ENDED);
    ck_assert_uint_eq(totals_now().hung, 1);
    ck_assert_int_eq(hf_session_begin(&session, group, 0, 0), -ESHUTDOWN);
    /* Others work, end, and begin. */
    ck_assert_int_eq(number_of(other, "builtins:int"), 0);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
    other = group_of(1, NULL);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
    /* It ends once the code lets it. */
    sem_post(&leave_call);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_uint_eq(totals_now().hung, 0);
    ck_assert_uint_eq(totals_now().ended, 4);
}
END_TEST

static void *block_and_go_on(void *argument)
{
    (void)block_attached(argument);
    ck_assert_int_eq(number_of(other, "__main__:work"), 5050);
    return argument;
}

/* What was raised in it does not reach what its thread does next. */
START_TEST(a_session_that_is_not_ended)
{
    load_python();
    group = group_of(1, NULL);
    other = group_of(1, "def work(): return sum(n for n in range(101))");
    pthread_t thread;
    sem_init(&in_call, 0, 0);
    sem_init(&leave_call, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, block_and_go_on, NULL), 0);
    while (sem_wait(&in_call) != 0)
        ;
    ck_assert_int_eq(hf_interpreters_end(group, 0), -ETIMEDOUT);
    sem_post(&leave_call);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(hf_interpreters_end(group, 0), 0);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
}
END_TEST

/* A thread runs a session of one group over a session of another that ends. */
static void *call_over_another(void *argument)
{
    struct hf_session *below = session_of(group, 0), *above = session_of(other, 0);
    ck_assert_int_eq(hf_session_attach(below), 0);
    ck_assert_int_eq(hf_session_attach(above), 0);
    run(above, "loop()");
    ck_assert_int_eq(hf_session_detach(above), 0);
    hf_session_end(below);
    hf_session_end(above);
    return argument;
}

START_TEST(what_runs_in_another_group_is_not_interrupted)
{
    pthread_t thread;
    load_python();
    group = group_of(1, NULL);
    other = group_of(1, "go_on = True\n"
                        "def loop():\n"
                        "    while go_on: pass\n"
                        "def stop():\n"
                        "    global go_on\n"
                        "    go_on = False\n");
    ck_assert_int_eq(pthread_create(&thread, NULL, call_over_another, NULL), 0);
    while (stats_of(other, 0).calls < 2)
        sched_yield();
    ck_assert_int_eq(hf_interpreters_end(group, 0), -ETIMEDOUT);
    ck_assert_int_eq(hf_interpreters_call(other, "__main__:stop", NULL, 0, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    ck_assert_int_eq(hf_interpreters_end(other, -1), 0);
}
END_TEST

/* Without a GIL, they are the main interpreter's, which does not end. */
START_TEST(threads_of_python_live_on_in_one_interpreter)
{
    load_python();
    if (!is_one_interpreter())
        return;
    group = group_of(1, "import os, threading\n"
                        "read, write = os.pipe()\n"
                        "thread = threading.Thread(target=os.read, args=(read, 1))\n"
                        "thread.start()\n");
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    group = group_of(1, "assert thread.is_alive()\n"
                        "os.write(write, b'a')\n"
                        "thread.join()\n");
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

START_TEST(threads_of_python_are_waited_for)
{
    load_python();
    if (is_one_interpreter())
        return;
    group = group_of(1, "import threading, _thread, concurrent.futures, atexit, os\n"
                        "pool = concurrent.futures.ThreadPoolExecutor(2)\n"
                        "assert pool.submit(sum, [1, 2]).result() == 3\n"
                        "read, write = os.pipe()\n"
                        "threading.Thread(target=os.read, args=(read, 1)).start()\n"
                        "_thread.start_new_thread(os.read, (read, 1))\n"
                        "atexit.register(print, end='')\n"
                        "def let_go(): os.write(write, b'ab')\n"
                        "threading._register_atexit(let_go)\n");
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
    group = group_of(1, "import threading\n"
                        "def loop():\n"
                        "    while True: pass\n"
                        "threading.Thread(target=loop).start()\n");
    ck_assert_int_eq(hf_interpreters_end(group, 50), 0);
    ck_assert_uint_eq(totals_now().ended, 2);
}
END_TEST

static void *make_and_end(void *argument)
{
    for (int i = 0; i < 6; i++) {
        struct hf_interpreters *own = group_of(2, "import json, re");
        ck_assert_int_eq(number_of(own, "builtins:int"), 0);
        ck_assert_int_eq(hf_interpreters_end(own, 0), 0);
    }
    return argument;
}

/* While others wait for their turn, longer than what hangs is given: nobody loses it. */
START_TEST(many_end_at_once)
{
    pthread_t threads[6];
    load_python();
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_and_end, NULL), 0);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(totals_now().ended, 72);
}
END_TEST

/* ---- fork ---- */

START_TEST(a_forked_child_has_no_interpreters)
{
    struct hf_session *session, *attached, *third = NULL;
    struct hf_interpreter_stats stats = {.size = sizeof stats};
    struct hf_replica *replica;
    int status;
    load_python();
    group = group_of(2, NULL);
    session = session_of(group, 0);
    attached = session_of(group, 1);
    ck_assert_int_eq(hf_replica_new(&replica, group, "builtins:list", NULL, 0, NULL), 0);
    ck_assert_int_eq(hf_session_attach(attached), 0);
    const pid_t child = fork();
    if (child == 0) {
        guard_against_hanging(20);
        _exit(hf_session_attach(session) != -ESHUTDOWN ||
              hf_session_detach(attached) != -ESHUTDOWN ||
              hf_session_begin(&third, group, -1, 0) != -ESHUTDOWN ||
              hf_interpreters_stats(group, 0, &stats) != -ESHUTDOWN ||
              hf_interpreters_end(group, -1) != -ESHUTDOWN ||
              hf_session_run(session, "1", NULL) != -ESHUTDOWN ||
              hf_interpreters_call(group, "a:b", NULL, 0, NULL) != -ESHUTDOWN ||
              hf_replica_call(replica, NULL, NULL, 0, NULL) != -ESHUTDOWN ||
              hf_interpreters_post(1, NULL, NULL) != -EINVAL ||
              hf_interpreters_hold(1) != -ESHUTDOWN || totals_now().running != 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    hf_replica_drop(replica);
    hf_session_end(attached);
    hf_session_end(session);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

static int ready[2];

static void *make_slowly(void *unused)
{
    char set_up[128];
    (void)unused;
    snprintf(set_up, sizeof set_up, "import os, time\nos.write(%d, b'x')\ntime.sleep(1)", ready[1]);
    group = group_of(1, set_up);
    return NULL;
}

START_TEST(a_child_forked_while_the_first_is_made)
{
    pthread_t thread;
    char byte;
    int status;
    load_python();
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, make_slowly, NULL), 0);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    const pid_t child = fork();
    if (child == 0) {
        guard_against_hanging(20);
        other = group_of(1, NULL);
        _exit(totals_now().made != 1 || hf_interpreters_end(other, -1) != 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(hf_interpreters_end(group, -1), 0);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(a_group_ends_while_calls_run, calls_that_wait_for_threads_are_interrupted,
                     a_loop_in_python_is_interrupted, a_call_that_blocks_in_c_is_left_alone,
                     a_session_that_is_not_ended, what_runs_in_another_group_is_not_interrupted,
                     threads_of_python_live_on_in_one_interpreter, threads_of_python_are_waited_for,
                     many_end_at_once, a_forked_child_has_no_interpreters,
                     a_child_forked_while_the_first_is_made);
}
