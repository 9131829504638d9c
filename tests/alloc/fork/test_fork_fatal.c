/* The heap finds an error and ends the process, whose handler of SIGABRT waits for another thread
 * (crash reporters do), and that thread forks. The thread that found the error was still inside the
 * gate that fork closes, so that the fork waited for it, and it for the fork. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t wanted, done;

static void *fork_when_wanted(void *unused)
{
    (void)unused;
    while (sem_wait(&wanted) != 0)
        ;
    pid_t child = fork();
    if (child == 0) {
        hf_free(hf_malloc(1 << 20));
        _exit(7);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    hf_free(hf_malloc(1 << 20));
    must(sem_post(&done) == 0);
    return NULL;
}

static void wait_for_the_other(int signal)
{
    (void)signal;
    must(sem_post(&wanted) == 0);
    while (sem_wait(&done) != 0)
        ;
}

static void prepare(void)
{
    pthread_t thread;
    alarm(patience(20));
    must(sem_init(&wanted, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    must(signal(SIGABRT, wait_for_the_other) != SIG_ERR);
    must(pthread_create(&thread, NULL, fork_when_wanted, NULL) == 0);
}

static void *volatile hidden;

static void free_twice(void)
{
    hidden = hf_malloc(100000);
    hf_free(hidden);
    hf_free(hidden);
}

static void double_free(void *unused)
{
    (void)unused;
    prepare();
    free_twice();
}

static void resize_inside(void *unused)
{
    (void)unused;
    prepare();
    hidden = (char *)hf_malloc(1000) + 16;
    hidden = hf_realloc(hidden, 2000);
}

/* ---- with more threads than the gate has cells ---- */

enum { THREADS = 140 };
static pthread_barrier_t all_here;

static void *use_the_heap(void *unused)
{
    (void)unused;
    hf_free(hf_malloc(100));
    pthread_barrier_wait(&all_here);
    pause();
    return NULL;
}

static void *free_twice_in_thread(void *unused)
{
    free_twice();
    return unused;
}

static void double_free_without_cell(void *unused)
{
    pthread_t thread;
    (void)unused;
    must(pthread_barrier_init(&all_here, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        must(pthread_create(&thread, NULL, use_the_heap, NULL) == 0);
    pthread_barrier_wait(&all_here);
    prepare();
    must(pthread_create(&thread, NULL, free_twice_in_thread, NULL) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static void dies(void (*body)(void *), const char *text)
{
    struct outcome outcome;
    outcome_of_function(&outcome, body, NULL);
    assert_killed(&outcome, SIGABRT, "homefree: fatal: ", text);
}

START_TEST(a_handler_waits_for_a_fork)
{
    dies(double_free, "is free already");
    dies(resize_inside, "inside a block");
}
END_TEST

START_TEST(a_handler_waits_for_a_fork_in_a_thread_without_a_cell)
{
    dies(double_free_without_cell, "is free already");
}
END_TEST

int main(void)
{
    return RUN_SUITE(a_handler_waits_for_a_fork,
                     a_handler_waits_for_a_fork_in_a_thread_without_a_cell);
}
