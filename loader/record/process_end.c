/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides when a process that `homefree doctor` started writes its record: when it ends, however it
 * ends. Owns the record's path and the signal handlers. Does nothing in a process without
 * HOMEFREE_DOCTOR in its environment, or in a privileged process.
 *
 * exit(3) and a return from main() run a destructor of this file. A signal that would end the
 * process is caught if the program does not catch it itself. The GOT slots of _exit(2) are
 * redirected in the program and the libraries that it was linked with. In a signal handler, in
 * _exit() and in a forked child, the holder of a lock may no longer exist. The record is then
 * written by a single-threaded copy of the process, created without pthread_atfork()'s handlers and
 * with a time limit, and the process ends as it was about to. An end that cannot be observed
 * (SIGKILL) leaves no record; the command then says so.
 *
 * When: hf_record_start() once, by the library's constructor; everything else at the end of the
 * process.
 */
#include "loader/record/process_record.h"

#include "alloc/base/apart.h"
#include "alloc/base/crash_signals.h"
#include "alloc/base/dynlink.h"
#include "alloc/base/fatal.h"
#include "alloc/heap/instance.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/libc_heap.h"
#include "alloc/owner/release_crash.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/slot_policy.h"
#include "loader/interpose/slot_writes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_ROOM = 1024, STACK = 256 * 1024, SECONDS = 20 };

static HF_APART char directory[PATH_ROOM]; /* empty: no record was requested */
static pid_t wanted;                       /* 0: every process that ends */
static pid_t started;                      /* the process that ran the constructors */
static atomic_int done;                    /* the process with a record; vfork() shares memory */

static const int fatal_signals[] = {SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGABRT, SIGSYS,
                                    SIGTRAP, SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE, SIGALRM,
                                    SIGUSR1, SIGUSR2, SIGXCPU, SIGINT};

static char *append(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(at, text, length + 1);
    return at + length;
}

static char *append_number(char *at, unsigned long value)
{
    char digits[24], *digit = digits + sizeof digits;
    *--digit = '\0';
    do
        *--digit = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    return append(at, digit);
}

/* Writes the record to a temporary file and renames it when it is complete. `pid` is the process
 * that the record describes. */
static void record(enum hf_doctor_moment moment, int signal_number,
                   const struct hf_doctor_crash *crash, pid_t pid, bool alone)
{
    char path[PATH_ROOM + 64], part[PATH_ROOM + 64];
    append_number(append(append(path, directory), "/"), (unsigned long)pid);
    append(append(part, path), ".part");
    int descriptor = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return;
    int result = hf_doctor_write(descriptor, moment, signal_number, crash, alone);
    if (close(descriptor) == 0 && result == 0)
        (void)rename(part, path);
    else
        (void)unlink(part);
}

/* The copy sends no SIGCHLD and is visible only to a wait(2) with __WALL. */
static void record_in_copy(enum hf_doctor_moment moment, int signal_number,
                           const struct hf_doctor_crash *crash)
{
    pid_t pid = getpid();
    pid_t copy = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (copy == 0) {
        for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++)
            signal(fatal_signals[i], SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        alarm(SECONDS);
        record(moment, signal_number, crash, pid, true);
        _exit(0);
    }
    while (copy > 0 && waitpid(copy, NULL, __WALL) < 0 && errno == EINTR)
        continue;
}

static bool is_wanted(void)
{
    return directory[0] != '\0' && (wanted == 0 || wanted == getpid());
}

/* Whether this process must write its record now. True only once. */
static bool is_due(void)
{
    return is_wanted() && atomic_exchange(&done, getpid()) != getpid();
}

/* The heap's, libc's, or that of an allocator in another object. */
static bool is_block(const void *value, const struct link_map *map)
{
    const struct hf_foreign_allocator *foreign = hf_foreign_of(value);
    return foreign != NULL ? foreign->map != map : hf_owned(value) || hf_libc_heap_holds(value);
}

/* Names the object whose allocator was to free another allocator's block: it dies without a
 * message. Returns whether that is so. */
static bool say_whose(const siginfo_t *info, const void *context, const struct hf_frame *frame)
{
    struct hf_release_crash crash;
    struct hf_doctor_place place;
    struct hf_text text;
    hf_doctor_find_place(frame, &place);
    if (!hf_release_crash_find(info, context, is_block, &crash) || crash.map != place.object)
        return false;
    hf_text_begin(&text);
    hf_text_add(&text, "the program dies in ");
    hf_text_add_code(&text, crash.code);
    hf_text_say(&text,
                ", which has a %s inside: memory of another allocator has probably reached its "
                "free(), which that object calls directly",
                hf_foreign_in(crash.map)->name);
    hf_text_write(&text);
    return true;
}

static void on_signal(int signal_number, siginfo_t *info, void *context)
{
    struct hf_doctor_crash crash = {.frame = hf_frame_of(context)};
    const bool crashed = hf_is_crash(signal_number);
    int saved_errno = errno;
    if (is_due()) {
        crash.freeing = crashed && say_whose(info, context, &crash.frame);
        record_in_copy(HF_DOCTOR_SIGNAL, signal_number, crashed ? &crash : NULL);
    }
    signal(signal_number, SIG_DFL);
    errno = saved_errno;
    /* A fault recurs when the handler returns; a signal that was sent must be sent again. */
    if (info->si_code <= 0 || info->si_code == SI_KERNEL || signal_number == SIGTRAP)
        (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal_number);
}

/* CPython installs a SIGINT handler itself, unless it finds another handler. */
static bool is_python(void)
{
    struct hf_object object;
    for (const struct link_map *map = hf_dynlink_first(); map != NULL; map = map->l_next)
        if (hf_dynlink_open(map, &object) && hf_object_symbol(&object, "Py_BytesMain") != NULL)
            return true;
    return false;
}

static void catch_signals(void)
{
    void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = {.ss_sp = stack, .ss_size = STACK};
    struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    if (stack == MAP_FAILED || sigaltstack(&alternate, NULL) != 0)
        return;
    bool python = is_python();
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++) {
        struct sigaction before;
        if ((python && fatal_signals[i] == SIGINT) ||
            sigaction(fatal_signals[i], NULL, &before) != 0 || before.sa_handler != SIG_DFL)
            continue;
        (void)sigaction(fatal_signals[i], &ours, NULL);
    }
}

/* ---- _exit(2) ---- */

static const char *const leaving[] = {"_exit", "_Exit"};

static int find_leaving(const char *name)
{
    for (int i = 0; i < 2; i++)
        if (strcmp(name, leaving[i]) == 0)
            return i;
    return -1;
}
static const char *name_leaving(int function)
{
    return leaving[function];
}

static void leave(int status)
{
    if (is_due())
        record_in_copy(HF_DOCTOR_EXIT, 0, NULL);
    _exit(status);
}

static void write_slot(const struct hf_slot *slot, void *context)
{
    struct hf_writer *writer = context;
    if (slot->kind != HF_SLOT_WORD && hf_write_is_allowed(writer, slot->address))
        (void)hf_write_slot(writer, slot->address, (void *)leave, *slot->address);
}

static void catch_leaving(void *context)
{
    static const struct hf_function_names names = {2, find_leaving, name_leaving, NULL};
    struct hf_object object;
    (void)context;
    hf_write_begin(false);
    for (const struct link_map *map = hf_dynlink_first(); map != NULL; map = map->l_next) {
        struct hf_writer writer = {.object = &object};
        if (!hf_dynlink_open(map, &object) || hf_object_role(&object) != HF_ROLE_ORDINARY)
            continue;
        hf_slots_visit(&object, &names, false, write_slot, &writer);
        hf_write_close(&writer);
    }
    hf_write_end();
}

/* Parses MOMENT:PID:DIRECTORY. Any other text was not written by the command, and is ignored. */
static bool read_request(const char *request, enum hf_doctor_moment *moment)
{
    if (strncmp(request, "exit:", 5) == 0)
        *moment = HF_DOCTOR_EXIT;
    else if (strncmp(request, "start:", 6) == 0)
        *moment = HF_DOCTOR_START;
    else
        return false;
    const char *at = strchr(request, ':') + 1;
    long pid = 0;
    for (; *at >= '0' && *at <= '9' && pid < 1 << 30; at++)
        pid = pid * 10 + (*at - '0');
    size_t length = *at == ':' ? strlen(at + 1) : 0;
    if (length == 0 || length >= sizeof directory || at[1] != '/')
        return false;
    wanted = (pid_t)pid;
    memcpy(directory, at + 1, length + 1);
    return true;
}

void hf_record_start(void)
{
    const char *request = secure_getenv(HF_DOCTOR_VARIABLE);
    enum hf_doctor_moment moment;
    if (request == NULL || hf_instance_forward() != NULL || !read_request(request, &moment))
        return;
    if (moment == HF_DOCTOR_START) {
        if (is_wanted())
            record(HF_DOCTOR_START, 0, NULL, getpid(), false);
        directory[0] = '\0';
    } else if (is_wanted()) {
        started = getpid();
        catch_signals();
        (void)hf_loader_lock_run(catch_leaving, NULL);
    }
}

__attribute__((destructor)) static void finish(void)
{
    int saved_errno = errno;
    if (is_due()) {
        if (getpid() == started)
            record(HF_DOCTOR_EXIT, 0, NULL, started, false);
        else
            record_in_copy(HF_DOCTOR_EXIT, 0, NULL);
    }
    errno = saved_errno;
}
