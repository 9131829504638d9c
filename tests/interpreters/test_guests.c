/*
 * Guests: interpreters that the host makes itself. Others can hold them and post to them, from the
 * first hf_interpreters_hold() to their end, which waits for nobody.
 *
 * usage: test_guests LIBPYTHON
 */
#include "groups.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* As in loader/host/cpython.h. */
struct config {
    int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads;
    int check_multi_interp_extensions, gil;
};
struct status {
    int kind;
    const char *function, *message;
    int exit_code;
};

struct guest {
    void *thread, *before; /* thread states: the guest's, and the one that was attached before */
    int64_t id;
};

static struct guest guest_new(void)
{
    const struct config config = {.allow_threads = 1, .check_multi_interp_extensions = 1, .gil = 2};
    struct guest guest = {.before = PYTHON(void *, PyThreadState_Get, (void))()};
    const struct status status = PYTHON(struct status, Py_NewInterpreterFromConfig,
                                        (void **, const struct config *))(&guest.thread, &config);
    ck_assert_int_eq(status.kind, 0);
    guest.id = hf_interpreter_current();
    ck_assert_int_gt(guest.id, 0);
    return guest;
}

static void leave(void)
{
    (void)PYTHON(void *, PyEval_SaveThread, (void))();
}

static void enter(void *thread)
{
    PYTHON(void, PyEval_RestoreThread, (void *))(thread);
}

/* Attached to it; returns attached to what was attached before. */
static void guest_end(const struct guest *guest)
{
    PYTHON(void, Py_EndInterpreter, (void *))(guest->thread);
    enter(guest->before);
}

static void run_here(const char *source)
{
    ck_assert_int_eq(PYTHON(int, PyRun_SimpleStringFlags, (const char *, void *))(source, NULL), 0);
}

static atomic_llong ran_in;
static atomic_int ran;

static void note(void *argument)
{
    (void)argument;
    atomic_store(&ran_in, hf_interpreter_current());
    atomic_fetch_add(&ran, 1);
}

static void start(void)
{
    load_python();
    PYTHON(void, Py_InitializeEx, (int))(0);
    atomic_store(&ran_in, -1);
    atomic_store(&ran, 0);
}

START_TEST(is_known_from_the_first_hold)
{
    start();
    const struct guest guest = guest_new();
    ck_assert_int_eq(hf_interpreters_post(guest.id, note, NULL), -ESHUTDOWN);
    leave();
    ck_assert_int_eq(hf_interpreters_hold(guest.id), -ESHUTDOWN); /* not attached to it */
    enter(guest.thread);
    ck_assert_int_eq(hf_interpreters_hold(guest.id), 0);
    hf_interpreters_unhold(guest.id);
    leave();
    ck_assert_int_eq(hf_interpreters_post(guest.id, note, NULL), 0);
    while (atomic_load(&ran) == 0)
        usleep(100);
    ck_assert_int_eq(atomic_load(&ran_in), guest.id);
    enter(guest.thread);
    guest_end(&guest);
    ck_assert_int_eq(hf_interpreters_post(guest.id, note, NULL), -ESHUTDOWN);
    ck_assert_int_eq(hf_interpreters_hold(guest.id), -ESHUTDOWN);
    PYTHON(void, Py_FinalizeEx, (void))();
}
END_TEST

static int64_t ended;
static int after;

static void try_again(void *argument)
{
    (void)argument;
    after = hf_interpreters_post(ended, note, NULL);
}

/* What is posted while its GIL is taken runs at its end, held or not. */
START_TEST(its_end_waits_for_nobody)
{
    start();
    const struct guest guest = guest_new();
    ended = guest.id;
    ck_assert_int_eq(hf_interpreters_hold(guest.id), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(hf_interpreters_post(guest.id, note, NULL), 0);
    ck_assert_int_eq(hf_interpreters_post(guest.id, try_again, NULL), 0);
    guest_end(&guest);
    ck_assert(after == -ECANCELED || after == 0);
    ck_assert_int_eq(atomic_load(&ran), after == 0 ? 101 : 100);
    ck_assert_int_eq(atomic_load(&ran_in), guest.id);
    hf_interpreters_unhold(guest.id);
    PYTHON(void, Py_FinalizeEx, (void))();
}
END_TEST

/* It is closed by `atexit`, which is some time before it is gone. */
START_TEST(nothing_of_an_ending_one_can_be_held)
{
    start();
    const struct guest guest = guest_new();
    ck_assert_int_eq(hf_interpreters_hold(guest.id), 0);
    hf_interpreters_unhold(guest.id);
    run_here("import atexit\natexit._run_exitfuncs()");
    ck_assert_int_eq(hf_interpreters_hold(guest.id), -ECANCELED);
    ck_assert_int_eq(hf_interpreters_post(guest.id, note, NULL), -ECANCELED);
    guest_end(&guest);
    ck_assert_int_eq(hf_interpreters_hold(guest.id), -ESHUTDOWN);
    PYTHON(void, Py_FinalizeEx, (void))();
}
END_TEST

#define ROUNDS 8

struct poster {
    atomic_llong id; /* 0: the end */
    atomic_int posted, refused;
};

static void *post_all_the_time(void *argument)
{
    struct poster *poster = argument;
    int64_t id;
    while ((id = atomic_load(&poster->id)) != 0) {
        const int error = hf_interpreters_post(id, note, NULL);
        if (error == 0)
            atomic_fetch_add(&poster->posted, 1);
        else if (error == -ESHUTDOWN || error == -ECANCELED)
            atomic_fetch_add(&poster->refused, 1);
        else
            ck_abort_msg("hf_interpreters_post(): %s", strerror(-error));
    }
    return NULL;
}

/* Whatever was accepted runs, however the end and the posts meet. */
START_TEST(posts_race_with_the_end)
{
    start();
    struct poster poster = {.id = -2};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_all_the_time, &poster), 0);
    for (int round = 0; round < ROUNDS; round++) {
        const struct guest guest = guest_new();
        ck_assert_int_eq(hf_interpreters_hold(guest.id), 0);
        hf_interpreters_unhold(guest.id);
        leave();
        const int before = atomic_load(&ran);
        atomic_store(&poster.id, guest.id);
        while (atomic_load(&ran) == before)
            usleep(100);
        enter(guest.thread);
        guest_end(&guest);
    }
    atomic_store(&poster.id, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&ran), atomic_load(&poster.posted));
    ck_assert_int_gt(atomic_load(&poster.refused), 0);
    PYTHON(void, Py_FinalizeEx, (void))();
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&libpython);
    return RUN_SUITE(is_known_from_the_first_hold, its_end_waits_for_nobody,
                     nothing_of_an_ending_one_can_be_held, posts_race_with_the_end);
}
