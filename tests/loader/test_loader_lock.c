/*
 * hf_loader_lock_run() rests on where glibc calls IFUNC resolvers (loader_lock.h): here the libc
 * that runs is asked. While a thread is inside the constructor of an object that it loads, what
 * another thread wants to run under the loader's lock must wait; the thread itself need not.
 *
 * usage: test-loader-lock GATE
 */
#include "lock_twin.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *gate_path;

/* Called by the gate's constructor and destructor, which find them in the program. */
static void (*on_enter)(void);
__attribute__((visibility("default"))) void gate_enter(void);
__attribute__((visibility("default"))) void gate_leave(void);

void gate_enter(void)
{
    if (on_enter != NULL)
        on_enter();
}

void gate_leave(void)
{
    if (on_enter != NULL)
        on_enter();
}

/* ---- one thread waits for another ---- */

static atomic_int other_thread; /* its thread ID, stored just before it takes the lock */
static atomic_bool other_ran, inside_over, ran_inside;

/* Whether the thread waits in futex(2). */
static bool is_waiting(int thread)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    int fd = open(path, O_RDONLY);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return text[0] != 'r' && atol(text) == SYS_futex;
}

static void note_run(void *context)
{
    (void)context;
    if (!inside_over)
        ran_inside = true;
    other_ran = true;
}

static void (*run_under_lock)(void);

static void run_twin(void)
{
    (void)twin_lock_run(note_run, NULL);
}

static void visit(const struct hf_route_entry *entry, void *context)
{
    (void)entry;
    note_run(context);
}

static void run_report(void)
{
    (void)hf_route_report(NULL, visit, NULL);
}

static void *other(void *argument)
{
    (void)argument;
    other_thread = (int)syscall(SYS_gettid);
    run_under_lock();
    return NULL;
}

/* Runs in the constructor: starts the other thread and stays until that one has run, which is an
 * error, or waits for the lock that this thread holds. */
static pthread_t started;
static void enter_and_watch(void)
{
    other_thread = 0;
    other_ran = inside_over = ran_inside = false;
    pthread_create(&started, NULL, other, NULL);
    while (!other_ran && (other_thread == 0 || !is_waiting(other_thread)))
        sched_yield();
    inside_over = true;
}

static void check_waits(void (*run)(void))
{
    run_under_lock = run;
    on_enter = enter_and_watch;
    void *handle = load(gate_path, RTLD_NOW);
    pthread_join(started, NULL);
    ck_assert(other_ran);
    ck_assert_msg(!ran_inside, "it ran while a constructor was running");
    /* The same during dlclose(). */
    dlclose(handle);
    pthread_join(started, NULL);
    ck_assert(other_ran);
    ck_assert_msg(!ran_inside, "it ran while a destructor was running");
    on_enter = NULL;
}

START_TEST(waits_for_a_constructor_in_another_thread)
{
    check_waits(run_twin);
}
END_TEST

START_TEST(the_report_waits_too)
{
    check_waits(run_report);
}
END_TEST

/* ---- one thread does not wait for itself ---- */

static int depth, deepest;

static void nested(void *context)
{
    int *left = context;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    if (--*left > 0)
        ck_assert_int_eq(twin_lock_run(nested, left), 0);
    depth--;
}

static void enter_recursively(void)
{
    int left = 3;
    if (twin_lock_run(nested, &left) != 0)
        deepest = -1;
    if (hf_route() < 0)
        deepest = -2;
    free(hf_malloc(100));
}

START_TEST(runs_inside_a_constructor)
{
    on_enter = enter_recursively;
    deepest = 0;
    void *handle = load(gate_path, RTLD_NOW);
    ck_assert_int_eq(deepest, 3);
    deepest = 0;
    dlclose(handle);
    ck_assert_int_eq(deepest, 3);
    on_enter = NULL;
}
END_TEST

START_TEST(runs_once_a_call)
{
    for (int i = 0; i < 100; i++) {
        int left = 1;
        deepest = 0;
        ck_assert_int_eq(twin_lock_run(nested, &left), 0);
        ck_assert_int_eq(left, 0);
    }
    /* Another caller that looks the symbol up starts nothing. */
    deepest = 0;
    ck_assert_ptr_nonnull(dlsym(RTLD_DEFAULT, "hf_loader_lock_call"));
    ck_assert_int_eq(deepest, 0);
}
END_TEST

/* ---- objects that are loaded meanwhile ---- */

static void load_inside(void *context)
{
    on_enter = enter_recursively;
    void *handle = dlopen(gate_path, RTLD_NOW);
    *(bool *)context = handle != NULL && dlclose(handle) == 0;
    on_enter = NULL;
}

START_TEST(may_load_and_unload)
{
    bool loaded = false;
    deepest = 0;
    ck_assert_int_eq(twin_lock_run(load_inside, &loaded), 0);
    ck_assert(loaded);
    ck_assert_int_eq(deepest, 3);
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&gate_path);
    if (access("/proc/self/syscall", R_OK) != 0) {
        printf("/proc/self/syscall cannot be read: no telling that a thread waits\n");
        return SKIPPED;
    }
    guard_against_hanging(60);
    return RUN_TESTS("loader lock", waits_for_a_constructor_in_another_thread, the_report_waits_too,
                     runs_inside_a_constructor, runs_once_a_call, may_load_and_unload);
}
