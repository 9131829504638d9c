/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See pressure_watches.h.
 */
#include "satellites/background/pressure_watches.h"

#include "alloc/base/clock.h"
#include "alloc/base/fork_lock.h"
#include "alloc/base/sized.h"
#include "satellites/background/background_core.h"
#include "satellites/background/gauge.h"
#include "satellites/background/last_words.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- watches ---- */

struct watch {
    uintptr_t serial; /* 0: it is free. Nobody has two of the same, also not in a forked child. */
    uint32_t turns;   /* how often it was told, times two; odd: cancelled. A futex. */
    uint32_t seen;    /* turns that a wait has returned */
    struct hf_gauge gauge;
    struct hf_pressure pressure;
};
enum { LG_WATCHES = 4, WATCHES_MOST = 1 << LG_WATCHES, CANCELLED = 1, TURN = 2 };
static struct watch watches[WATCHES_MOST];
static uintptr_t serials; /* so many were made */
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned count; /* of those that are taken; atomic */

static void wake(struct watch *watch)
{
    (void)syscall(SYS_futex, &watch->turns, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* What callers have is no address: a watch that has ended, or is the parent's, is known as such. */
static struct hf_pressure_watch *name_of(const struct watch *watch)
{
    return (struct hf_pressure_watch *)(watch->serial << LG_WATCHES | (uintptr_t)(watch - watches));
}

/* With the lock; NULL: it has ended. */
static struct watch *find(const struct hf_pressure_watch *name)
{
    struct watch *watch = &watches[(uintptr_t)name % WATCHES_MOST];
    return watch->serial == (uintptr_t)name >> LG_WATCHES && watch->serial != 0 ? watch : NULL;
}

int hf_watches_begin(struct hf_pressure_watch **out, unsigned per_cent)
{
    struct watch *watch = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WATCHES_MOST && watch == NULL; i++)
        if (watches[i].serial == 0)
            watch = &watches[i];
    if (watch != NULL) {
        *watch = (struct watch){.serial = ++serials, .gauge = {.per_cent = per_cent}};
        __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
        *out = name_of(watch);
    }
    pthread_mutex_unlock(&lock);
    return watch != NULL ? 0 : -EMFILE;
}

/* Returns 0 if there is something new, -EAGAIN if not. */
static int take_turn(const struct hf_pressure_watch *name, struct hf_pressure *out,
                     uint32_t **futex, uint32_t *turns)
{
    int error = -EAGAIN;
    pthread_mutex_lock(&lock);
    struct watch *watch = find(name);
    if (watch == NULL || (watch->turns & CANCELLED) != 0) {
        error = -ECANCELED;
    } else {
        *futex = &watch->turns;
        *turns = watch->turns;
        if (*turns != watch->seen) {
            watch->seen = *turns;
            hf_sized_copy(out, &watch->pressure, sizeof watch->pressure);
            error = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

int hf_watches_wait(struct hf_pressure_watch *name, struct hf_pressure *out, int timeout_ms)
{
    const uint64_t until = hf_clock_exact(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        uint32_t *futex, turns;
        const int error = take_turn(name, out, &futex, &turns);
        if (error != -EAGAIN)
            return error;
        struct timespec left, *limit = NULL;
        if (timeout_ms >= 0) {
            const uint64_t now = hf_clock_exact(CLOCK_MONOTONIC);
            if (now >= until)
                return -ETIMEDOUT;
            left.tv_sec = (time_t)((until - now) / 1000000000);
            left.tv_nsec = (long)((until - now) % 1000000000);
            limit = &left;
        }
        (void)syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, turns, limit, NULL, 0);
    }
}

void hf_watches_cancel(struct hf_pressure_watch *name)
{
    pthread_mutex_lock(&lock);
    struct watch *watch = find(name);
    if (watch != NULL) {
        __atomic_fetch_or(&watch->turns, CANCELLED, __ATOMIC_SEQ_CST);
        wake(watch);
    }
    pthread_mutex_unlock(&lock);
}

void hf_watches_end(struct hf_pressure_watch *name)
{
    pthread_mutex_lock(&lock);
    struct watch *watch = find(name);
    if (watch != NULL) {
        __atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED);
        watch->serial = 0;
    }
    pthread_mutex_unlock(&lock);
}

void hf_watches_left(void)
{
    if (count != 0) /* a write copies a page */
        count = 0;
    for (size_t i = 0; i < WATCHES_MOST; i++)
        if (watches[i].serial != 0)
            watches[i].serial = 0;
}

/* ---- looking ---- */

#define MILLISECOND ((uint64_t)1000000)
enum {
    UNLIMITED = 1000, /* milliseconds between two looks, where there is no limit */
    LONGEST = 250,    /* where there is one: a program takes a gigabyte in less */
    SHORTEST = 10,
    FIND_AGAIN = 10000, /* the process may be moved, or its limits changed */
    LAST_WORDS = 95,
};
static struct hf_cgroup cgroup;
static uint64_t found_at, looked_at, usage_then;
static struct hf_gauge own = {.per_cent = 0}, words = {.per_cent = LAST_WORDS};
static bool stalled; /* since the last look */

/* The lowest level that somebody waits for; 0: nobody does. */
static unsigned lowest(void)
{
    unsigned least = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WATCHES_MOST; i++)
        if (watches[i].serial != 0 && (least == 0 || watches[i].gauge.per_cent < least))
            least = watches[i].gauge.per_cent;
    pthread_mutex_unlock(&lock);
    return least;
}

static void tell(const struct hf_cgroup_use *use, uint64_t now)
{
    const struct hf_pressure pressure = {.size = sizeof pressure,
                                         .usage = use->usage,
                                         .limit = use->limit,
                                         .per_cent = hf_cgroup_per_cent(use),
                                         .stalled = stalled};
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < WATCHES_MOST; i++) {
        struct watch *watch = &watches[i];
        if (watch->serial == 0 || !hf_gauge_tells(&watch->gauge, use, stalled, now))
            continue;
        watch->pressure = pressure;
        __atomic_add_fetch(&watch->turns, TURN, __ATOMIC_SEQ_CST);
        wake(watch);
    }
    pthread_mutex_unlock(&lock);
}

/* When usage reaches the level, if it goes on like this; half of that time is waited. A program
 * that grows in steps has grown faster between some looks than between others. */
static int pause_for(const struct hf_cgroup_use *use, unsigned per_cent, uint64_t now)
{
    static double rate; /* bytes a nanosecond */
    const uint64_t level = use->limit / 100 * per_cent;
    const double grown = (double)use->usage - (double)usage_then;
    const double rate_now = grown / (double)(now - looked_at + 1);
    rate = rate_now > rate * 7 / 8 ? rate_now : rate * 7 / 8;
    usage_then = use->usage;
    looked_at = now;
    if (use->limit == 0)
        return UNLIMITED;
    if (rate <= 0 || use->usage >= level)
        return LONGEST;
    const double until = (double)(level - use->usage) / rate / 2 / MILLISECOND;
    return until >= LONGEST ? LONGEST : until <= SHORTEST ? SHORTEST : (int)until;
}

/* If it grows once more by what it has since the last look. */
static bool may_end_soon(const struct hf_cgroup_use *use)
{
    return use->limit != 0 && usage_then != 0 && use->usage > usage_then &&
           use->usage - usage_then >= use->limit - use->usage;
}

int hf_watches_look(void)
{
    const struct hf_options *options = hf_core()->options;
    const bool writes = options->last_words == HF_FILE_PATH;
    unsigned level = options->pressure != 0 ? (unsigned)options->pressure : 100;
    if (options->pressure == 0 && !writes && __atomic_load_n(&count, __ATOMIC_RELAXED) == 0)
        return -1;
    const uint64_t now = hf_clock_exact(CLOCK_MONOTONIC);
    struct hf_cgroup_use use;
    if (found_at == 0 || now - found_at > FIND_AGAIN * MILLISECOND) {
        hf_cgroup_find("", false, &cgroup);
        found_at = now;
    }
    if (!hf_cgroup_read(&cgroup, &use))
        found_at = 0;
    use.usage = use.limit != 0 && use.usage > use.limit ? use.limit : use.usage;
    own.per_cent = (unsigned)options->pressure;
    if (writes && hf_gauge_tells(&words, &use, may_end_soon(&use), now))
        hf_last_words_write(&use);
    if (hf_gauge_tells(&own, &use, stalled, now))
        (void)hf_core()->trim(NULL, NULL);
    tell(&use, now);
    stalled = false;
    const unsigned waited_for = lowest();
    level = waited_for != 0 && waited_for < level ? waited_for : level;
    level = writes && level > LAST_WORDS ? LAST_WORDS : level;
    return pause_for(&use, level, now);
}

/* ---- what the kernel tells ---- */

static int stalls = -1; /* a trigger of PSI; -2: there is none */

static int trigger(const char *path)
{
    /* A tenth of two seconds: others may not ask for shorter windows. */
    static const char wanted[] = "some 200000 2000000";
    const int file = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && write(file, wanted, sizeof wanted) < 0) {
        close(file);
        return -1;
    }
    return file;
}

int hf_watches_stalls(void)
{
    static struct hf_cgroup unified;
    static char path[PATH_MAX + 32];
    if (stalls != -1)
        return stalls;
    hf_cgroup_find("", true, &unified);
    (void)snprintf(path, sizeof path, "%s/memory.pressure", unified.directory);
    stalls = unified.found ? trigger(path) : -1;
    if (stalls < 0)
        stalls = trigger("/proc/pressure/memory");
    if (stalls < 0)
        stalls = -2;
    return stalls;
}

void hf_watches_stalled(short events)
{
    if (events == POLLPRI || events == (POLLPRI | POLLERR))
        stalled = (events & POLLERR) == 0;
    if ((events & (POLLERR | POLLNVAL | POLLHUP)) != 0)
        stalls = -2; /* not closed: it may be another's by now */
}
