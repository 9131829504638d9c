/*
 * The tables that libhomefree jumps through are read-only except while they change: a program that
 * writes to any of their pages dies, and they are closed again after everything that fills them, in
 * every thread and in children that were forked meanwhile.
 *
 * usage: test-sealed USER MAPPER...
 */
#include "death.h"
#include "process.h"
#include "sealed.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ROUNDS = 60 };

static struct sealed sealed;
static char **paths;
static int paths_count;
static atomic_bool over;

static void write_to(void *context)
{
    *(volatile char *)context = 1;
}

START_TEST(a_write_is_deadly)
{
    ck_assert(is_sealed(&sealed));
    for (size_t at = 0; at < sealed.size; at += PAGE) {
        struct outcome outcome;
        outcome_of_function(&outcome, write_to, sealed.start + at);
        ck_assert_msg(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGSEGV,
                      "page %zu was written", at / PAGE);
    }
}
END_TEST

static void *load_and_unload(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        void *handle = dlopen(argument, RTLD_LAZY | RTLD_LOCAL);
        if (handle == NULL)
            return argument;
        dlclose(handle);
        /* The libc of each namespace is a new original for every stub, until all stubs are taken.
         */
        handle = i % 16 == 0 ? dlmopen(LM_ID_NEWLM, argument, RTLD_LAZY) : NULL;
        if (handle != NULL)
            dlclose(handle);
    }
    return NULL;
}

static void *fork_and_look(void *argument)
{
    (void)argument;
    while (!over) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(is_sealed(&sealed) ? 0 : 1);
        if (child < 0 || waitpid(child, &status, 0) != child)
            return "no child";
        if (WIFSIGNALED(status))
            return strsignal(WTERMSIG(status));
        if (status != 0)
            return "the tables are open in a child";
    }
    return NULL;
}

START_TEST(closed_after_storms_and_in_children)
{
    pthread_t threads[16], forking;
    void *failed = NULL;
    int count = paths_count < 16 ? paths_count : 16;
    over = false;
    ck_assert_int_eq(pthread_create(&forking, NULL, fork_and_look, NULL), 0);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load_and_unload, paths[i]), 0);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], &failed);
        ck_assert_msg(failed == NULL, "%s", (const char *)failed);
    }
    over = true;
    pthread_join(forking, &failed);
    ck_assert_msg(failed == NULL, "%s", (const char *)failed);
    ck_assert(is_sealed(&sealed));
}
END_TEST

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* The signal mask is restored. */
START_TEST(signals_are_as_they_were)
{
    sigset_t mask;
    signal(SIGUSR1, count_signal);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
    load(paths[0], RTLD_NOW);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    ck_assert(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1));
    raise(SIGUSR1);
    ck_assert_int_eq(signals, 1);
}
END_TEST

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s USER...\n", arguments[0]);
        return 2;
    }
    guard_against_hanging(100);
    paths = arguments + 1;
    paths_count = count - 1;
    sealed = find_sealed();
    return RUN_TESTS("sealed", a_write_is_deadly, closed_after_storms_and_in_children,
                     signals_are_as_they_were);
}
