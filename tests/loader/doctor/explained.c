/*
 * Programs that libhomefree-explain.so must leave as they are, for test_explain.py:
 * `explained CASE`.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SMALL = 2 * PAGE };

static char *volatile nowhere;
static sigjmp_buf place;
static int explaining; /* the reading end of stderr */

static void crash(void)
{
    *nowhere = 1;
}

static void *crash_there(void *unused)
{
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    crash();
    return unused;
}

static void *crash_after(void *thread)
{
    pthread_join(*(pthread_t *)thread, NULL);
    crash();
    return NULL;
}

static void recover(int number)
{
    siglongjmp(place, number);
}

static void give_up(int number)
{
    (void)number;
    abort();
}

static void say_child(int number)
{
    (void)number;
    (void)!write(STDERR_FILENO, "SIGCHLD\n", 8);
}

/* Starts a thread that crashes, and waits until that is explained; this thread is not stopped by it
 * if `blocks`. */
static void crash_meanwhile(int blocks)
{
    int ends[2];
    char byte;
    pthread_t thread;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    if (blocks)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0 ||
        pthread_create(&thread, NULL, crash_there, NULL) != 0)
        _exit(77);
    explaining = ends[0];
    if (read(explaining, &byte, 1) != 1)
        _exit(77);
}

/* Handlers of its own, and what was there before. */
static int handlers(void)
{
    struct sigaction old, mine = {.sa_handler = recover, .sa_flags = SA_NODEFER};
    if (sigaction(SIGSEGV, NULL, &old) != 0 || old.sa_handler != SIG_DFL || old.sa_flags != 0)
        return 1;
    if (sigaction(SIGSEGV, &mine, &old) != 0 || old.sa_handler != SIG_DFL)
        return 2;
    for (volatile int i = 0; i < 3; i++)
        if (sigsetjmp(place, 1) == 0)
            crash();
    if (sigaction(SIGSEGV, &old, &mine) != 0 || mine.sa_handler != recover)
        return 3;
    if (signal(SIGABRT, recover) != SIG_DFL || signal(SIGABRT, SIG_DFL) != recover ||
        signal(SIGABRT, SIG_IGN) != SIG_DFL || signal(SIGABRT, SIG_DFL) != SIG_IGN)
        return 4;
    abort();
}

int main(int count, char **words)
{
    const char *which = count > 1 ? words[1] : "";
    if (strcmp(which, "handlers") == 0)
        return handlers();
    if (strcmp(which, "ignored") == 0)
        return raise(SIGABRT) == 0 ? 5 : 1;
    if (strcmp(which, "child") == 0)
        signal(SIGCHLD, say_child);
    if (strcmp(which, "no-child") == 0)
        signal(SIGCHLD, SIG_IGN);
    if (strcmp(which, "closed") == 0)
        close(STDERR_FILENO);
    if (strcmp(which, "small-stack") == 0) {
        char *memory = mmap(NULL, PAGE + SMALL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(memory + PAGE, SMALL, PROT_READ | PROT_WRITE);
        sigaltstack(&(stack_t){.ss_sp = memory + PAGE, .ss_size = SMALL}, NULL);
        sigaction(SIGSEGV, &(struct sigaction){.sa_handler = give_up, .sa_flags = SA_ONSTACK},
                  NULL);
    }
    if (strcmp(which, "main-ended") == 0) {
        static pthread_t first;
        pthread_t second;
        first = pthread_self();
        pthread_create(&second, NULL, crash_after, &first);
        pthread_exit(NULL);
    }
    if (strcmp(which, "others-end") == 0) {
        crash_meanwhile(0);
        return 3;
    }
    if (strcmp(which, "memory-appears") == 0) {
        nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        crash_meanwhile(1);
        mprotect(nowhere, PAGE, PROT_READ | PROT_WRITE);
        for (;;)
            pause();
    }
    if (strcmp(which, "fork") == 0) {
        int status;
        crash_meanwhile(1);
        const pid_t child = fork();
        if (child == 0) {
            alarm(20); /* it must not wait for a thread that it has not */
            crash_there(NULL);
        }
        waitpid(child, &status, 0);
        _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 1);
    }
    crash();
}
