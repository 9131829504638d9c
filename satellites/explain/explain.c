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
 * Where it is preloaded, its handlers are the default action to everybody else: sigaction() and
 * signal() say SIG_DFL where they stand, and put them there for SIG_DFL. The handlers of CPython,
 * Rust and Java depend on what was there before.
 *
 * Owns the handlers of four signals, unless they are ignored, and the alternate signal stack of the
 * thread that installs them, if it has none. hf_explain_crashes(): any thread, once; the first call
 * counts.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

/* SECONDS: more than the command gives itself, which may wait for a reader of stderr. */
enum { STACK = 64 << 10, SECONDS = 40, NUMBERS = 6, DIGITS = 24, ENTRIES = 2048 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static char command[PATH_MAX];
static struct sigaction before[SIGNALS];
static atomic_bool installed;
extern char **environ;

/* libc's, by names that are not ours. */
int libc_sigaction(int, const struct sigaction *, struct sigaction *) __asm__("__sigaction");
sighandler_t libc_signal(int, sighandler_t) __asm__("bsd_signal");

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

static void become(char *request)
{
    static char doctor[] = "doctor", option[] = "--crash";
    char *arguments[] = {command, doctor, option, request, NULL};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#ifdef SYS_close_range
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
#endif
    execve(command, arguments, environ);
    _exit(127);
}

/* In the child: has the command explain, for SECONDS at most, and ends. The memory is a copy of the
 * crashed process's, so the environment may be damaged; then this process crashes, too, and nothing
 * is explained. The command would tell the crashed process of its end by SIGCHLD; this one does
 * not. */
static void watch(char *request)
{
    char **end = environ;
    sigset_t none;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (int number = 1; number < NSIG; number++)
        (void)libc_signal(number, SIG_DFL); /* what is ignored would stay so */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(SECONDS);
    for (char **each = environ; each != NULL && *each != NULL; each++)
        if (!is_preload(*each))
            *end++ = *each;
    if (end != NULL)
        *end = NULL;
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        _exit(127);              /* stdout is no place for it */
    const pid_t child = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): no locks
    if (child == 0)
        become(request);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    _exit(0);
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
    static char request[NUMBERS * DIGITS];
    char *at = request;
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
        watch(request);
    while (child > 0 && waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    (void)prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

/* The process dies at this thread's signal. Until then others do not go on: they could end it. */
static void stop_others(pid_t process, pid_t self, int number)
{
    static _Alignas(struct dirent64) char entries[ENTRIES]; /* the stack may be small */
    const int tasks =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long size;
    while (tasks >= 0 && (size = syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0)
        for (long at = 0; at < size;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            pid_t thread = 0;
            for (const char *digit = entry->d_name; *digit >= '0' && *digit <= '9'; digit++)
                thread = thread * 10 + (*digit - '0');
            if (thread > 0 && thread != self)
                (void)syscall(SYS_tgkill, process, thread, number);
            at += entry->d_reclen;
        }
    if (tasks >= 0)
        (void)syscall(SYS_close, tasks);
}

static size_t place_of(int number)
{
    size_t i = 0;
    while (i < SIGNALS && signals[i] != number)
        i++;
    return i;
}

/* Once. Other threads that crash meanwhile wait: the signal of this one may end the process. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    static const struct timespec moment = {.tv_nsec = 50000000};
    static _Atomic uint64_t explainer; /* the numbers of process and thread; fork() copies it */
    static atomic_bool explained, doomed;
    const int error = errno;
    const pid_t process = getpid(), thread = (pid_t)syscall(SYS_gettid);
    const uint64_t self = (uint64_t)process << 32 | (uint32_t)thread;
    const struct sigaction *next = &before[place_of(number)];
    uint64_t who = atomic_load(&explainer);
    if (!atomic_load(&explained) && who >> 32 != (uint64_t)process &&
        atomic_compare_exchange_strong(&explainer, &who, self)) {
        atomic_store(&doomed, next->sa_handler == SIG_DFL);
        if (atomic_load(&doomed))
            stop_others(process, thread, number);
        explain(number, info, context);
        atomic_store(&explained, true);
    }
    while ((who = atomic_load(&explainer)) != self && who >> 32 == (uint64_t)process &&
           (!atomic_load(&explained) || atomic_load(&doomed)))
        (void)nanosleep(&moment, NULL);
    (void)libc_sigaction(number, next, NULL);
    errno = error;
    /* As it came, when the handler returns. A fault need not recur: memory may have appeared. */
    if (syscall(SYS_rt_tgsigqueueinfo, process, thread, number, info) != 0)
        (void)syscall(SYS_tgkill, process, thread, number);
}

static struct sigaction action_of_ours(void)
{
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    return action;
}

static bool is_ours(int number)
{
    return place_of(number) < SIGNALS && atomic_load(&installed);
}

__attribute__((visibility("default"))) int sigaction(int number, const struct sigaction *action,
                                                     struct sigaction *old)
{
    const struct sigaction ours = action_of_ours();
    if (is_ours(number) && action != NULL && action->sa_handler == SIG_DFL) {
        before[place_of(number)] = *action;
        action = &ours;
    }
    const int result = libc_sigaction(number, action, old);
    if (result == 0 && old != NULL && old->sa_sigaction == on_crash)
        *old = (struct sigaction){.sa_handler = SIG_DFL};
    return result;
}

__attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler)
{
    struct sigaction old;
    if (!is_ours(number))
        return libc_signal(number, handler);
    if (handler == SIG_DFL)
        return sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, &old) == 0
                   ? old.sa_handler
                   : SIG_ERR;
    if (sigaction(number, NULL, &old) != 0 || libc_signal(number, handler) == SIG_ERR)
        return SIG_ERR;
    return old.sa_handler;
}

static void take_stack(void)
{
    stack_t now;
    if (sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0)
        return;
    void *memory = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const stack_t stack = {.ss_sp = memory, .ss_size = STACK};
    if (memory != MAP_FAILED)
        (void)sigaltstack(&stack, NULL);
}

/* path: of the command homefree. Returns 0 or a negative errno; -EPERM in a privileged process. */
__attribute__((visibility("default"))) int hf_explain_crashes(const char *path);
int hf_explain_crashes(const char *path)
{
    const struct sigaction ours = action_of_ours();
    if (path == NULL || path[0] != '/' || strlen(path) >= sizeof command)
        return -EINVAL;
    if (getauxval(AT_SECURE) != 0)
        return -EPERM; /* the command obeys the environment */
    if (atomic_exchange(&installed, true))
        return 0;
    memcpy(command, path, strlen(path) + 1);
    take_stack();
    for (size_t i = 0; i < SIGNALS; i++) {
        if (libc_sigaction(signals[i], NULL, &before[i]) != 0)
            return -errno;
        if (before[i].sa_handler != SIG_IGN && libc_sigaction(signals[i], &ours, NULL) != 0)
            return -errno;
    }
    return 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *path = secure_getenv(VARIABLE);
    if (path != NULL)
        (void)hf_explain_crashes(path);
}
