/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See signals.h. Owns which dispositions are ours; the kernel holds them. A program that resets a
 * signal to SIG_DFL gets our handler back, so that the end is recorded after its own handler too.
 *
 * While blocks are sampled, the program's handler for SIGSEGV is kept here: the kernel has ours
 * with the program's mask and flags, which calls the program's for what is no access to a sampled
 * block. Such an access, to a freed block or to what lies around a block, becomes a finding at the
 * very instruction, on any stack that has room for it, and then the program goes on.
 */
#include "alloc/diagnose/signals.h"

#include "alloc/base/crash_signals.h"
#include "alloc/base/fatal.h"
#include "alloc/diagnose/crash.h"
#include "alloc/diagnose/elsewhere.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/guarded_samples.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/unwind.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* libc's functions under the names that nobody interposes. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old);
extern sighandler_t bsd_signal(int number, sighandler_t handler);

static void (*report_end)(int number); /* set once, before `started` */
static atomic_bool started;
static bool sees_faults; /* set before the program starts, and unset when it confines itself */

static void say_lost(void)
{
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_add(&text, "another process cut the report's file short; the report ends there");
    hf_text_write(&text);
}

/* What the handler does with the report. Another thread that crashed first is waited for: this one
 * would end the process before the other has told. */
struct crash {
    const siginfo_t *info;
    const void *context;
};

static void close_report(void *argument)
{
    const struct crash *crash = argument;
    hf_crash_judge(crash->info, crash->context);
    report_end(crash->info->si_signo);
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
    if (hf_report_is_confined()) { /* the kernel has reset the disposition */
        report_end(number);
    } else {
        (void)hf_elsewhere(close_report, &(struct crash){info, context});
        (void)__sigaction(number, &usual, NULL);
    }
    errno = saved_errno;
    /* A fault recurs when the handler returns; a signal that was sent must be sent again. */
    if (info->si_code <= 0 || info->si_code == SI_KERNEL || number == SIGTRAP)
        (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

static void on_fault(int number, siginfo_t *info, void *context);

static struct sigaction our_action(int number)
{
    struct sigaction ours = {.sa_sigaction = number == SIGSEGV && sees_faults ? on_fault : on_crash,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (hf_report_is_confined())
        ours.sa_flags = (int)((unsigned)ours.sa_flags | (unsigned)SA_RESETHAND);
    sigfillset(&ours.sa_mask);
    return ours;
}

/* ---- accesses to guarded samples ---- */

enum {
    REPEATS_MAX = 16, /* of one fault */
    PAGE_FAULT_WRITE = 2
};

#if defined(__aarch64__)
/* Whether a fault was a read or a write. The kernel's frame has records in its reserved part, each
 * with a kind and a size; one is the syndrome register (Linux, asm/sigcontext.h), whose class,
 * bits 26 to 31, is 0x24 for a data access of user code, and whose bit 6 is set for a write. */
static enum hf_report_function kind_of_access(const ucontext_t *context)
{
    enum { DATA_ABORT = 0x24, WRITES = 1 << 6 };
    const unsigned char *records = context->uc_mcontext.__reserved;
    const size_t capacity = sizeof context->uc_mcontext.__reserved;
    struct esr_context record;
    for (size_t at = 0; at + sizeof record <= capacity; at += record.head.size) {
        memcpy(&record, records + at, sizeof record);
        if (record.head.magic == ESR_MAGIC && (record.esr >> 26 & 63) == DATA_ABORT)
            return (record.esr & WRITES) != 0 ? HF_FUNCTION_write : HF_FUNCTION_read;
        if (record.head.magic == 0 || record.head.size < sizeof record.head)
            break;
    }
    return HF_FUNCTION_access;
}
#endif

/* The instruction, as a return address is: one byte behind its first. NULL: unknown. */
static const void *instruction_of(const ucontext_t *context, enum hf_report_function *function)
{
#if defined(__x86_64__)
    const greg_t *registers = context->uc_mcontext.gregs;
    *function = (registers[REG_ERR] & PAGE_FAULT_WRITE) != 0 ? HF_FUNCTION_write : HF_FUNCTION_read;
    return (const char *)(uintptr_t)registers[REG_RIP] + 1;
#elif defined(__aarch64__)
    *function = kind_of_access(context);
    return (const char *)(uintptr_t)context->uc_mcontext.pc + 1;
#else
    (void)context;
    *function = HF_FUNCTION_access;
    return NULL;
#endif
}

static void record(void *event)
{
    hf_finding(event);
}

static void find(struct hf_event *event, const ucontext_t *context)
{
    const void *frames[HF_UNWIND_MAX];
    enum hf_report_function function;
    const void *instruction = instruction_of(context, &function);
    event->freed_site = hf_site_of(instruction, function).number;
    event->freed = (struct hf_event_stack){frames, hf_unwind_interrupted(context, frames)};
    if (!hf_elsewhere(record, event))
        hf_report_drop();
}

/* Whether the thread repeats a fault that no change of ours can explain: then the program has
 * protected its block itself, such as for a write barrier, and the fault is its handler's. */
static bool repeats(const void *address)
{
    static __thread struct {
        const void *address;
        uint64_t changes;
        unsigned count;
    } last __attribute__((tls_model("initial-exec")));
    const uint64_t changes = hf_guarded_changes();
    if (last.address != address)
        last.count = 0;
    else if (last.changes == changes || ++last.count == REPEATS_MAX) {
        last.address = NULL;
        return true;
    }
    last.address = address;
    last.changes = changes;
    return false;
}

static __attribute__((noinline)) bool judge(const void *address, const ucontext_t *context)
{
    struct hf_event event;
    sigset_t all, before;
    const int saved_errno = errno;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const enum hf_guarded_verdict verdict = hf_guarded_judge(address, &event);
    bool goes_on = verdict == HF_GUARDED_FINE && !repeats(address);
    if (verdict == HF_GUARDED_FREED || verdict == HF_GUARDED_OUTSIDE) {
        find(&event, context);
        goes_on = hf_guarded_open(address);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return goes_on;
}

/* Whether the access may be repeated: it touched a guarded sample, and is recorded. False: the
 * fault is none of ours. Does not return in strict mode. context: a ucontext_t. */
static bool take_access(const siginfo_t *info, const void *context)
{
    return info->si_code == SEGV_ACCERR && hf_guarded_holds(info->si_addr) &&
           judge(info->si_addr, context);
}

/* ---- the program's handler for SIGSEGV ---- */

/* The last ones, because a handler that runs may still read an earlier one. */
static struct sigaction programs[8];
static _Atomic(unsigned) latest;

static const struct sigaction *programs_action(void)
{
    return &programs[atomic_load(&latest) % (sizeof programs / sizeof programs[0])];
}

static void keep_action(const struct sigaction *action)
{
    const unsigned next = atomic_load(&latest) + 1;
    programs[next % (sizeof programs / sizeof programs[0])] = *action;
    atomic_store(&latest, next);
}

/* Ours, which calls `action`. */
static struct sigaction in_front_of(const struct sigaction *action)
{
    struct sigaction ours = *action;
    ours.sa_sigaction = on_fault;
    ours.sa_flags = (int)((unsigned)action->sa_flags & ~(unsigned)SA_RESETHAND) | SA_SIGINFO;
    return ours;
}

static bool is_handler(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* sigaction(2) for SIGSEGV. The kernel may have another function by now: what does not come through
 * our sigaction(). */
static int take_fault_action(const struct sigaction *action, struct sigaction *old)
{
    static const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction before, ours;
    if (__sigaction(SIGSEGV, NULL, &before) != 0)
        return -1;
    if (before.sa_sigaction == on_fault)
        before = *programs_action();
    else if (before.sa_sigaction == on_crash)
        before = usual;
    /* A child of vfork(2) or the like has dispositions of its own, but the parent's memory. */
    if (action != NULL && !hf_report_is_own()) {
        if (__sigaction(SIGSEGV, action, NULL) != 0)
            return -1;
    } else if (action != NULL) {
        ours = *action;
        if (is_handler(action))
            ours = in_front_of(action);
        else if (action->sa_handler == SIG_DFL)
            ours = our_action(SIGSEGV);
        keep_action(is_handler(action) ? action : &usual);
        if (__sigaction(SIGSEGV, &ours, NULL) != 0)
            return -1;
    }
    if (old != NULL)
        *old = before;
    return 0;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    /* Our own walk of a stack follows wrong pointers, too: that is no access of the program's. */
    hf_unwind_recover(context);
    if (take_access(info, context))
        return;
    const struct sigaction *programs_own = programs_action();
    const unsigned flags = (unsigned)programs_own->sa_flags;
    const sighandler_t handler = programs_own->sa_handler;
    void (*const informed)(int, siginfo_t *, void *) = programs_own->sa_sigaction;
    if (handler == SIG_DFL) {
        on_crash(number, info, context);
        return;
    }
    if ((flags & (unsigned)SA_RESETHAND) != 0) {
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)take_fault_action(&usual, NULL);
    }
    if ((flags & SA_SIGINFO) != 0)
        informed(number, info, context);
    else
        handler(number);
}

void hf_signals_watch_accesses(void)
{
    struct sigaction before;
    if (__sigaction(SIGSEGV, NULL, &before) != 0 || before.sa_handler == SIG_IGN)
        return;
    sees_faults = true;
    if (before.sa_sigaction == on_crash)
        before = (struct sigaction){.sa_handler = SIG_DFL};
    (void)take_fault_action(&before, NULL);
}

bool hf_signals_see_accesses(void)
{
    struct sigaction now;
    return sees_faults && __sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == on_fault;
}

/* ---- dispositions ---- */

/* Whether one of our handlers would get a fault of this thread. A confined process cannot ask. */
static bool catches_faults(void)
{
    struct sigaction now;
    sigset_t blocked;
    if (hf_report_is_confined())
        return true;
    return pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGSEGV) &&
           __sigaction(SIGSEGV, NULL, &now) == 0 &&
           (now.sa_sigaction == on_crash || now.sa_sigaction == on_fault);
}

void hf_signals_start(void (*ended)(int number))
{
    report_end = ended;
    for (size_t i = 0; i < HF_CRASH_SIGNALS; i++) {
        const int number = hf_crash_signals[i];
        const struct sigaction ours = our_action(number);
        struct sigaction before;
        if (__sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            (void)__sigaction(number, &ours, NULL);
    }
    hf_unwind_start(catches_faults);
    atomic_store(&started, true);
}

/* What the kernel has of ours from now on needs no system call. */
void hf_signals_confine(void)
{
    struct sigaction now;
    sees_faults = false;
    for (size_t i = 0; i < HF_CRASH_SIGNALS; i++) {
        if (__sigaction(hf_crash_signals[i], NULL, &now) != 0)
            continue;
        const bool in_front = now.sa_sigaction == on_fault && is_handler(programs_action());
        if (in_front)
            now = *programs_action();
        else if (now.sa_sigaction == on_fault || now.sa_sigaction == on_crash)
            now = our_action(hf_crash_signals[i]);
        else
            continue;
        (void)__sigaction(hf_crash_signals[i], &now, NULL);
    }
}

int hf_signals_action(int number, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction ours;
    if (number == SIGSEGV && sees_faults)
        return take_fault_action(action, old);
    if (action != NULL && action->sa_handler == SIG_DFL && hf_is_crash(number) &&
        atomic_load(&started)) {
        ours = our_action(number);
        action = &ours;
    }
    int result = __sigaction(number, action, old);
    if (result == 0 && old != NULL && old->sa_sigaction == on_crash)
        memset(old, 0, sizeof *old);
    return result;
}

sighandler_t hf_signals_handle(int number, sighandler_t handler)
{
    if (hf_is_crash(number) && handler == SIG_DFL) {
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        struct sigaction old;
        return hf_signals_action(number, &usual, &old) == 0 ? old.sa_handler : SIG_ERR;
    }
    if (number == SIGSEGV && sees_faults) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, number);
        if (handler == SIG_ERR) {
            errno = EINVAL;
            return SIG_ERR;
        }
        return take_fault_action(&action, &old) == 0 ? old.sa_handler : SIG_ERR;
    }
    sighandler_t before = bsd_signal(number, handler);
    return (uintptr_t)before == (uintptr_t)on_crash ? SIG_DFL : before;
}
