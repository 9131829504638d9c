/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that looks. Owns it, and a lock under which it is started.
 *
 * What it does not do: allocate from the heap, so that it has no part of it; handle signals; keep
 * the process alive when all other threads have ended; work while exit(3) takes things apart.
 */
#include "alloc/base/fatal.h"
#include "alloc/base/fork_lock.h"
#include "alloc/build_stamp.h"
#include "satellites/background/background_core.h"
#include "satellites/background/pressure_watches.h"

#include <errno.h>
#include <homefree/trim.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK = 256 << 10, IDLE = 1000, BUSY = 500 }; /* bytes; milliseconds between two looks */
#define QUIET ((uint64_t)400000000)                  /* without a slow path: the process is idle */

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static bool runs;           /* lock */
static pthread_t self;      /* once it runs */
static uint32_t is_working; /* atomic, a futex: it may be inside another allocator */
static bool exiting;        /* atomic: exit(3) has begun */

/* ---- when all others have ended ---- */

/* The first thread of a process may end before others; then the kernel keeps its name alone, not
 * its program. A process has ended when the last of the others has. */
static bool is_alone(void)
{
    enum { OF_A_DIRECTORY = 2, THE_FIRST_AND_THIS = 2 };
    struct stat tasks;
    char first;
    return readlink("/proc/self/exe", &first, 1) < 0 && errno == ENOENT &&
           stat("/proc/self/task", &tasks) == 0 &&
           tasks.st_nlink == OF_A_DIRECTORY + THE_FIRST_AND_THIS;
}

/* ---- requests of `homefree trim --pid` (loader/record/live_trim.h)  ---- */

static void begin_listening(void)
{
    struct hf_live_trim *request = hf_core()->request;
    request->answered = __atomic_load_n(&request->asked, __ATOMIC_RELAXED);
    __atomic_store_n(&request->listens, 1, __ATOMIC_RELEASE);
}

static void stop_listening(void)
{
    __atomic_store_n(&hf_core()->request->listens, 0, __ATOMIC_RELEASE);
}

/* The text's end, if it is too long. */
static void copy_end(char *to, size_t size, const char *text)
{
    const size_t length = text != NULL ? strlen(text) : 0;
    memset(to, 0, size);
    if (length < size)
        memcpy(to, text != NULL ? text : "", length);
    else
        memcpy(to, text + length - (size - 1), size - 1);
}

static void add_row(const struct hf_trimmed *trimmed, void *context)
{
    struct hf_live_trim *request = context;
    if (request->count == HF_LIVE_TRIM_ROWS) {
        request->left_out++;
        return;
    }
    struct hf_live_trim_row *row = &request->rows[request->count++];
    copy_end(row->allocator, sizeof row->allocator, trimmed->allocator);
    copy_end(row->how, sizeof row->how, trimmed->how);
    copy_end(row->object, sizeof row->object, trimmed->object);
    row->before = trimmed->before;
    row->after = trimmed->after;
}

static void answer(void)
{
    struct hf_live_trim *request = hf_core()->request;
    const uint64_t asked = __atomic_load_n(&request->asked, __ATOMIC_ACQUIRE);
    if (asked == request->answered)
        return;
    request->count = request->left_out = 0;
    request->error = hf_core()->trim(add_row, request);
    __atomic_store_n(&request->answered, asked, __ATOMIC_RELEASE);
}

/* ---- looking ---- */

/* Returns in how many milliseconds to look again, and whether somebody wants to know of pressure.
 */
static int look(bool *watches)
{
    answer();
    const int pause = hf_core()->look(QUIET) == HF_LOOK_BUSY ? BUSY : IDLE;
    const int sooner = hf_watches_look();
    *watches = sooner >= 0;
    return *watches && sooner < pause ? sooner : pause;
}

static void wait(int milliseconds, bool watches)
{
    struct pollfd file = {.fd = watches ? hf_watches_stalls() : -1, .events = POLLPRI};
    if (poll(&file, file.fd >= 0 ? 1 : 0, milliseconds) > 0)
        hf_watches_stalled(file.revents);
}

static void *run(void *unused)
{
    (void)unused;
    (void)prctl(PR_SET_NAME, "homefree");
    begin_listening();
    while (!is_alone()) {
        __atomic_store_n(&is_working, 1, __ATOMIC_SEQ_CST);
        bool watches = false;
        const int pause = __atomic_load_n(&exiting, __ATOMIC_SEQ_CST) ? IDLE : look(&watches);
        __atomic_store_n(&is_working, 0, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&exiting, __ATOMIC_SEQ_CST)) {
            (void)syscall(SYS_futex, &is_working, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
            break;
        }
        wait(pause, watches);
    }
    return NULL;
}

/* exit(3): other libraries' destructors come next. It waits, but not for long: they may wait for
 * what this thread holds. */
__attribute__((destructor)) static void end(void)
{
    const struct timespec longest = {.tv_sec = 1};
    __atomic_store_n(&exiting, true, __ATOMIC_SEQ_CST);
    if (runs && !pthread_equal(self, pthread_self()) &&
        __atomic_load_n(&is_working, __ATOMIC_SEQ_CST) != 0)
        (void)syscall(SYS_futex, &is_working, FUTEX_WAIT_PRIVATE, 1, &longest, NULL, 0);
}

/* ---- starting ---- */

static void warn(int error)
{
    static bool warned;
    struct hf_text text;
    if (warned)
        return;
    warned = true;
    hf_text_begin(&text);
    hf_text_say(
        &text,
        "cannot start the thread that gives unused memory back: %s; the process goes on without "
        "it; raise the limits on threads (ulimit -u, the cgroup's pids.max), or leave out what "
        "asks for it (HOMEFREE_CONF=background:off)",
        strerror(error));
    hf_text_write(&text);
}

/* It has all signals blocked from its first moment on. */
static int make(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_attr_setstacksize(&attributes, STACK);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&self, &attributes, run, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error;
}

/* Starts it unless it runs. Any thread, also inside the gate. Returns 0 or a negative errno, after
 * one warning. */
static int start(void)
{
    int error = 0;
    pthread_mutex_lock(&lock);
    if (!runs) {
        error = make();
        runs = error == 0;
        if (error != 0)
            warn(error);
    }
    pthread_mutex_unlock(&lock);
    return -error;
}

/* In a forked child: only stores. */
static void left(void)
{
    if (runs) /* a write copies a page */
        runs = false;
    if (is_working != 0)
        is_working = 0;
    stop_listening();
    hf_watches_left();
}

/* ---- what the core calls of this satellite ---- */

static const struct hf_background_functions table = {
    .start = start,
    .left = left,
    .pressure_begin = hf_watches_begin,
    .pressure_wait = hf_watches_wait,
    .pressure_cancel = hf_watches_cancel,
    .pressure_end = hf_watches_end,
};

HF_SATELLITE_WITH(background, table, NULL);
