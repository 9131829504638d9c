/*
 * Ends as its first argument says, after it has allocated in one function and freed with a fault in
 * another: a report must have what happened until then.
 */
#include "../support/cases.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char data[64];

/* The fault: frees static data. */
static __attribute__((noinline)) void fault(void)
{
    void *ptr = data;
    __asm__ volatile("" : "+r"(ptr));
    free(ptr);
    __asm__ volatile("");
}

static void *churn(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20000; i++) {
        void *block = malloc((size_t)(i % 500) + 1);
        __asm__ volatile("" : "+r"(block));
        free(block);
    }
    return NULL;
}

static void end_threads(void)
{
    pthread_t threads[40];
    for (int i = 0; i < 40; i++)
        if (pthread_create(&threads[i], NULL, churn, NULL) != 0)
            exit(1);
    for (int i = 0; i < 40; i++)
        pthread_join(threads[i], NULL);
    fault();
}

static void end_closed(void)
{
    fault();
    (void)syscall(__NR_close_range, 0, ~0U, 0); /* the function came with glibc 2.34 */
    for (int i = 0; i < 20; i++)
        (void)open("/dev/null", O_RDWR);
    churn(NULL);
    fault();
}

static void end_elsewhere(void)
{
    if (chdir("/") != 0)
        exit(1);
    fault();
}

static void end_dropped(void)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        exit(1);
    churn(NULL);
    fault();
}

/* Only read, write, exit and sigreturn are allowed from here on. */
static void end_sandboxed(void)
{
    fault();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        _exit(77);
    void *block = malloc(10);
    __asm__ volatile("" : "+r"(block));
    free(block);
    syscall(SYS_exit, 0);
}

/* Children that fault, one after the other, and end by this function. */
static void fork_and_fault(int count, void (*end)(int))
{
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            fault();
            end(0);
        }
        (void)waitpid(child, NULL, 0);
    }
}

static void end_forked(void)
{
    fork_and_fault(3, exit);
}

/* The child shares this process's memory and must leave its records alone. */
static void end_vforked(void)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(3);
    (void)waitpid(child, NULL, 0);
    fault();
}

static void end_storm(void)
{
    fork_and_fault(1200, _exit);
}

static void end_killed(void)
{
    fault();
    raise(SIGKILL);
}

static void end_aborted(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    fault();
    abort();
}

/* As a process ends whose sandbox refuses a system call. */
static void end_refused(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    fault();
    raise(SIGSYS);
}

static void end_at_once(void)
{
    fault();
    _exit(5);
}

static void end_executed(void)
{
    fault();
    execl("/bin/true", "true", (char *)NULL);
}

static const struct named_case ends[] = {
    {"exit", fault},          {"threads", end_threads},
    {"closed", end_closed},   {"elsewhere", end_elsewhere},
    {"dropped", end_dropped}, {"sandboxed", end_sandboxed},
    {"forked", end_forked},   {"vforked", end_vforked},
    {"storm", end_storm},     {"killed", end_killed},
    {"aborted", end_aborted}, {"refused", end_refused},
    {"at-once", end_at_once}, {"executed", end_executed},
};

NAMED_CASES_MAIN(ends)
