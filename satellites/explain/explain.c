/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libhomefree-explain.so: when the process crashes, `homefree doctor` looks at it and explains the
 * crash on stderr; then whoever had the signal before gets it, or the core dump follows.
 *
 * It needs nothing of homefree's, and costs nothing before a crash. `homefree run --explain`
 * preloads it and names the command in HOMEFREE_EXPLAIN; homefree.explain_crashes() loads it. The
 * process is not trusted any more when it has crashed, so the handler calls the system alone: no
 * memory is allocated and no lock is taken, and another process reads this one's memory.
 *
 * Owns the handlers of four signals, and the alternate signal stack of the thread that installs
 * them, if it has none. hf_explain_crashes(): any thread, once; the first call counts.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "HOMEFREE_EXPLAIN"

enum { STACK = 64 << 10, SECONDS = 60, ENVIRONMENT_MOST = 2048, NUMBERS = 6, DIGITS = 24 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static char command[PATH_MAX];
static struct sigaction before[SIGNALS];
static atomic_bool installed;
extern char **environ;

static char *append(char *at, uint64_t value)
{
    char digits[DIGITS], *digit = digits + sizeof digits;
    do
        *--digit = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    memcpy(at, digit, (size_t)(digits + sizeof digits - digit));
    return at + (digits + sizeof digits - digit);
}

static bool is_preload(const char *variable)
{
    static const char *const names[] = {"LD_PRELOAD=", VARIABLE "="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* In the child: becomes the command. The memory is a copy of the crashed process's, so the
 * environment may be damaged; then this process crashes, too, and nothing is explained. */
static void become(char *request)
{
    static char doctor[] = "doctor", option[] = "--crash";
    char *arguments[] = {command, doctor, option, request, NULL};
    char *environment[ENVIRONMENT_MOST + 1];
    size_t count = 0;
    sigset_t none;
    for (size_t i = 0; i < SIGNALS; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(SECONDS);
    for (char **each = environ; each != NULL && *each != NULL && count < ENVIRONMENT_MOST; each++)
        if (!is_preload(*each))
            environment[count++] = *each;
    environment[count] = NULL;
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execve(command, arguments, environment);
    _exit(127);
}

static uint64_t thread_pointer(void)
{
    uint64_t pointer = 0;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
    return pointer;
}

/* The numbers of process, thread and signal, and where the signal's information, the registers and
 * the thread's record are. */
static void explain(int number, const siginfo_t *info, const void *context)
{
    char request[NUMBERS * DIGITS], *at = request;
    const pid_t self = getpid();
    const uint64_t numbers[NUMBERS] = {(uint64_t)self,
                                       (uint64_t)syscall(SYS_gettid),
                                       (uint64_t)number,
                                       (uint64_t)(uintptr_t)info,
                                       (uint64_t)(uintptr_t)context,
                                       thread_pointer()};
    for (size_t i = 0; i < NUMBERS; i++) {
        at = append(at, numbers[i]);
        *at++ = i + 1 < NUMBERS ? ':' : '\0';
    }
    if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
        return; /* it has changed its user, or wants no one to see its memory */
    /* Yama lets only ancestors look at a process, unless it says who else may. */
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    /* As fork(), without handlers and locks; the child sends no SIGCHLD. */
    const pid_t child = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (child == 0)
        become(request);
    while (child > 0 && waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    (void)prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

/* Once. Other threads that crash meanwhile wait: the signal of this one may end the process. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    static atomic_int explainer; /* a thread's number */
    static atomic_bool explained;
    const int error = errno, self = (int)syscall(SYS_gettid);
    int nobody = 0;
    if (atomic_compare_exchange_strong(&explainer, &nobody, self)) {
        explain(number, info, context);
        atomic_store(&explained, true);
    }
    while (!atomic_load(&explained) && atomic_load(&explainer) != self)
        (void)nanosleep(&moment, NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            (void)sigaction(number, &before[i], NULL);
    errno = error;
    /* A fault recurs when the handler returns; a signal that was sent must be sent again. */
    if (info->si_code <= 0 || info->si_code == SI_KERNEL)
        (void)syscall(SYS_tgkill, getpid(), self, number);
}

static void take_stack(void)
{
    stack_t now;
    if (sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0)
        return;
    void *memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const stack_t ours = {.ss_sp = memory, .ss_size = STACK};
    if (memory != MAP_FAILED)
        (void)sigaltstack(&ours, NULL);
}

/* path: of the command homefree. Returns 0 or a negative errno; -EPERM in a privileged process. */
__attribute__((visibility("default"))) int hf_explain_crashes(const char *path);
int hf_explain_crashes(const char *path)
{
    struct sigaction ours = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (path == NULL || path[0] != '/' || strlen(path) >= sizeof command)
        return -EINVAL;
    if (getauxval(AT_SECURE) != 0)
        return -EPERM; /* the command obeys the environment */
    if (atomic_exchange(&installed, true))
        return 0;
    memcpy(command, path, strlen(path) + 1);
    take_stack();
    sigfillset(&ours.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], &ours, &before[i]) != 0)
            return -errno;
    return 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *path = secure_getenv(VARIABLE);
    if (path != NULL)
        (void)hf_explain_crashes(path);
}
