/*
 * See signals.h. Owns which dispositions are ours; the kernel holds them. A program that resets a
 * signal to SIG_DFL gets our handler back, so that the end is recorded after its own handler too.
 */
#include "alloc/diagnose/signals.h"

#include "alloc/base/fatal.h"
#include "alloc/diagnose/crash.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/unwind.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* libc's functions under the names that nobody interposes. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
extern sighandler_t bsd_signal(int number, sighandler_t handler);

/* Milliseconds to wait for another thread's crash to be recorded. */
enum { NAPS = 2000 };

static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
static void (*report_end)(int number); /* set once, before `started` */
static atomic_bool started;

static bool is_crash(int number)
{
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        if (crashes[i] == number)
            return true;
    return false;
}

static void say_lost(void)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "another process cut the report's file short; the report ends there");
    hf_text_write(&text);
}

/* What the handler does with the report, on a stack of its own: the program's alternate stack may
 * have room for little more than a signal frame. For the first thread that crashes. */
static struct {
    ucontext_t from, to;
    int number;
    const void *context;
    alignas(16) char stack[64 * 1024];
} closing;

static void close_report(void)
{
    hf_crash_judge(closing.number, closing.context);
    report_end(closing.number);
}

static void close_report_elsewhere(int number, const void *context)
{
    static atomic_bool begun;
    const struct timespec nap = {0, 1000000};
    /* Another thread crashed first: this one would end the process before the other has told. */
    for (int i = 0; atomic_exchange(&begun, true); i++) {
        if (i == NAPS)
            return;
        (void)nanosleep(&nap, NULL);
    }
    if (getcontext(&closing.to) != 0) {
        atomic_store(&begun, false);
        return;
    }
    closing.number = number;
    closing.context = context;
    closing.to.uc_stack.ss_sp = closing.stack;
    closing.to.uc_stack.ss_size = sizeof closing.stack;
    closing.to.uc_link = &closing.from;
    makecontext(&closing.to, close_report, 0);
    (void)swapcontext(&closing.from, &closing.to);
    atomic_store(&begun, false);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    static const struct sigaction usual = {.sa_handler = SIG_DFL};
    int saved_errno = errno;
    if (number == SIGBUS && info->si_code > 0 && hf_report_recover(info->si_addr)) {
        say_lost();
        errno = saved_errno;
        return;
    }
    if (number == SIGSEGV || number == SIGBUS)
        hf_unwind_recover(context);
    close_report_elsewhere(number, context);
    (void)__sigaction(number, &usual, NULL);
    errno = saved_errno;
    /* A fault recurs when the handler returns; a signal that was sent must be sent again. */
    if (info->si_code <= 0 || info->si_code == SI_KERNEL || number == SIGTRAP)
        (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

static struct sigaction our_action(void)
{
    struct sigaction ours = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    return ours;
}

void hf_signals_start(void (*ended)(int number))
{
    const struct sigaction ours = our_action();
    report_end = ended;
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        struct sigaction before;
        if (__sigaction(crashes[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            (void)__sigaction(crashes[i], &ours, NULL);
    }
    atomic_store(&started, true);
}

int hf_signals_action(int number, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction ours;
    if (action != NULL && action->sa_handler == SIG_DFL && is_crash(number) &&
        atomic_load(&started)) {
        ours = our_action();
        action = &ours;
    }
    int result = __sigaction(number, action, old);
    if (result == 0 && old != NULL && old->sa_sigaction == on_crash)
        memset(old, 0, sizeof *old);
    return result;
}

sighandler_t hf_signals_handle(int number, sighandler_t handler)
{
    if (is_crash(number) && handler == SIG_DFL) {
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        struct sigaction old;
        return hf_signals_action(number, &usual, &old) == 0 ? old.sa_handler : SIG_ERR;
    }
    sighandler_t before = bsd_signal(number, handler);
    return (uintptr_t)before == (uintptr_t)on_crash ? SIG_DFL : before;
}
