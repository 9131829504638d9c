/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the handlers of five signals, and what the host had there before, which a handler reads
 * without a lock: it is stored before the handler is installed, and stays.
 *
 * A handler of the host's comes first, because it alone knows whether the process dies. It dies if
 * the host has given the signal back, as handlers do that only report, or if abort() sent it. The
 * signal is blocked until then, so that a host that raises it again dies after our line, and not
 * before.
 *
 * What is installed stays as long as somebody may call it as the handler before: then it passes
 * signals on, and says nothing unless a group wants it.
 */
#include "satellites/interpreters/interpreter_crashes.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/base/maps.h"
#include "loader/record/crash_place.h"
#include "satellites/interpreters/naming.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static struct caught {
    const char *name;
    struct sigaction before;
    int number;
    bool installed; /* and not removed: somebody may still call it */
} signals[] = {
#define HF_CAUGHT(signal_number)                          \
    {                                                     \
        .name = #signal_number, .number = (signal_number) \
    }
    HF_CAUGHT(SIGSEGV), HF_CAUGHT(SIGBUS), HF_CAUGHT(SIGFPE), HF_CAUGHT(SIGILL), HF_CAUGHT(SIGABRT),
#undef HF_CAUGHT
};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static void on_crash(int number, siginfo_t *info, void *context);

static const struct caught *find(int number)
{
    const struct caught *caught = signals;
    while (caught->number != number)
        caught++;
    return caught;
}

static bool is_handler(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static struct sigaction action_now(int number)
{
    struct sigaction now = {.sa_handler = SIG_DFL};
    (void)sigaction(number, NULL, &now);
    return now;
}

/* ---- where it came from ---- */

/*
 * A handler that was installed after ours and sends the signal again has hidden the place: the
 * interrupted code is now in that handler. The kernel's frame of the first signal lies further up
 * on the same stack. Finds that one's context, or NULL. On x86-64 a frame begins with the address
 * of the code that returns from a handler, which is the same for all of libc's; then comes the
 * context. Elsewhere the place stays hidden.
 */
static const void *first_context(const void *context, ucontext_t *copy)
{
#if defined(__x86_64__)
    enum { WORDS = 512, WINDOWS = 32, USER_CODE = 0x33 };
    uintptr_t words[WORDS], at = hf_frame_of(context).stack & -sizeof words[0], mark;
    if (!hf_maps_read((const char *)context - sizeof mark, &mark, sizeof mark))
        return NULL;
    for (size_t window = 0; window < WINDOWS; window++, at += sizeof words) {
        size_t count = WORDS;
        while (count > 0 && !hf_maps_read((const void *)at, words, count * sizeof words[0]))
            count /= 2; /* the end of the stack */
        for (size_t i = 0; i < count; i++)
            if (words[i] == mark &&
                hf_maps_read((const char *)at + (i + 1) * sizeof words[0], copy, sizeof *copy) &&
                (copy->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == USER_CODE)
                return copy;
        if (count < WORDS)
            break;
    }
#else
    (void)context;
    (void)copy;
#endif
    return NULL;
}

/* ---- the line ---- */

/* "object+0xoffset"; an address outside of all objects as it is. Before glibc 2.35, every address.
 */
static void add_code(struct hf_text *text, uintptr_t code)
{
    const struct link_map *map = hf_dynlink_find_fast((const void *)code);
    if (map != NULL)
        hf_text_say(text, "%s+", hf_dynlink_name(map));
    hf_text_add_hex(text, map != NULL ? code - map->l_addr : code);
}

static void add_interpreter(struct hf_text *text, const struct hf_naming_place *place)
{
    if (place->interpreter == 0 && place->count == 0)
        hf_text_add(text, "the main interpreter");
    else if (place->interpreter < 0 && place->count == 0)
        hf_text_add(text, "a thread that is attached to no interpreter");
    else if (place->interpreter < 0)
        hf_text_add(text, "an interpreter that is being made");
    else
        hf_text_say(text, "interpreter %zu", (size_t)place->interpreter);
    if (place->count != 0)
        hf_text_say(text, " (index %d of %d)", (int)place->index, (int)place->count);
}

static void say(const struct caught *caught, const struct hf_naming_place *where,
                const siginfo_t *info, const void *context)
{
    struct hf_doctor_place place;
    ucontext_t copy;
    struct hf_text text;
    const bool sent = info->si_code <= 0;
    const void *first = sent ? first_context(context, &copy) : NULL;
    const struct hf_frame crash = hf_frame_of(first != NULL ? first : context);
    hf_doctor_search_place(&crash, &place);
    hf_text_begin(&text);
    hf_text_say(&text, "fatal: %s in ", caught->name);
    add_interpreter(&text, where);
    if (where->what[0] != '\0')
        hf_text_say(&text, ", which ran '%s'", where->what);
    hf_text_add(&text, "; the instruction is at ");
    add_code(&text, crash.code);
    if (place.object != NULL && place.code != crash.code) {
        hf_text_add(&text, ", called from ");
        add_code(&text, place.code);
    }
    hf_text_write(&text);
}

/* ---- the handler ---- */

/* Calls the host's handler as the kernel would, but for the signal itself, which stays blocked. */
static void call_before(const struct caught *caught, siginfo_t *info, void *context)
{
    const ucontext_t *thread = context;
    sigset_t mask, all;
    (void)sigorset(&mask, &thread->uc_sigmask, &caught->before.sa_mask);
    sigaddset(&mask, caught->number);
    if ((caught->before.sa_flags & (int)SA_RESETHAND) != 0)
        (void)sigaction(caught->number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if ((caught->before.sa_flags & SA_SIGINFO) != 0)
        caught->before.sa_sigaction(caught->number, info, context);
    else
        caught->before.sa_handler(caught->number);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    static const struct sigaction usual = {.sa_handler = SIG_DFL};
    const int saved_errno = errno;
    const struct caught *caught = find(number);
    struct hf_naming_place place;
    const bool named = hf_naming_here(&place); /* before a handler of the host's changes it */
    bool dies = true;
    if (is_handler(&caught->before)) {
        const struct sigaction now = action_now(number);
        call_before(caught, info, context);
        dies = number == SIGABRT || action_now(number).sa_sigaction != now.sa_sigaction;
    }
    if (named && dies)
        say(caught, &place, info, context);
    if (!is_handler(&caught->before)) {
        (void)sigaction(number, &usual, NULL);
        /* A fault recurs when the handler returns; a signal that was sent must be sent again. */
        if (info->si_code <= 0 || info->si_code == SI_KERNEL)
            (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
    }
    errno = saved_errno;
}

/* ---- installing ---- */

void hf_interpreter_crashes_install(void)
{
    struct sigaction ours = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++) {
        struct caught *caught = &signals[i];
        const struct sigaction now = action_now(caught->number);
        if (now.sa_handler == SIG_IGN || now.sa_sigaction == on_crash)
            continue;
        /* A handler that came after ours may call ours: it is left alone. */
        if (caught->installed && is_handler(&now))
            continue;
        caught->before = now;
        caught->installed = sigaction(caught->number, &ours, NULL) == 0;
    }
}

void hf_interpreter_crashes_remove(void)
{
    for (size_t i = 0; i < SIGNALS; i++)
        if (signals[i].installed && action_now(signals[i].number).sa_sigaction == on_crash)
            signals[i].installed = sigaction(signals[i].number, &signals[i].before, NULL) != 0;
}
