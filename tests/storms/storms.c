/*
 * See storms.h.
 *
 * usage: storms NAME SECONDS MODULE...
 *
 * Prints one line of figures. Whatever goes wrong ends the process. storms_run() does the same in
 * another program's process.
 */
#include "storms.h"

#include <homefree/homefree.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct figures figures;
const char *const *modules;
unsigned module_count;
atomic_bool storm_over;
const char *storm_program;
static double seconds;

enum { MARGIN = 60 }; /* seconds that a storm may take longer, on a slow machine */

static const struct {
    const char *name;
    void (*run)(void);
} storms[] = {
    {"races", storm_races},     {"crowd", storm_crowd},   {"libraries", storm_libraries},
    {"signals", storm_signals}, {"limits", storm_limits}, {"limited", storm_limited},
};

void storm_failed(const char *what, const char *detail)
{
    fprintf(stderr, "storms: %s: %s\n", what, detail);
    abort();
}

void storm_wait(void)
{
    struct timespec until = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&until, &until) != 0)
        ;
    storm_over = true;
}

static void show(const char *name, double took)
{
    const struct {
        const char *what;
        unsigned long count;
    } counts[] = {
        {"operations", figures.operations}, {"loads", figures.loads},
        {"libraries", figures.libraries},   {"namespaces", figures.namespaces},
        {"forks", figures.forks},           {"routes", figures.routes},
        {"signals", figures.signals},       {"refusals", figures.refusals},
    };
    printf("%s:", name);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].count > 0)
            printf(" %lu %s,", counts[i].count, counts[i].what);
    printf(" %.1f s\n", took);
    fflush(stdout);
}

static uint64_t allocated(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    STORM_MUST(hf_stats(&stats) == 0);
    return stats.allocated;
}

/* Result: 0, or 2 if there is no such storm. */
__attribute__((visibility("default"))) int storms_run(const char *name, double for_seconds,
                                                      const char *const *paths, unsigned count);
int storms_run(const char *name, double for_seconds, const char *const *paths, unsigned count)
{
    /* What a heap may keep of its own: caches, thread data, what routing learned. */
    enum { KEPT = 8 << 20 };
    for (size_t i = 0; i < sizeof storms / sizeof storms[0]; i++) {
        if (strcmp(storms[i].name, name) != 0)
            continue;
        struct timespec begin, end;
        modules = paths;
        module_count = count;
        seconds = for_seconds;
        storm_over = false;
        memset(&figures, 0, sizeof figures);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        const uint64_t before = allocated();
        storms[i].run();
        storm_blocks_end();
        const uint64_t after = allocated();
        if (after > before + KEPT)
            storm_failed(name, "blocks were lost");
        clock_gettime(CLOCK_MONOTONIC, &end);
        show(name,
             (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
        return 0;
    }
    return 2;
}

#ifndef STORMS_SHARED
int main(int count, char **arguments)
{
    if (count < 4) {
        fprintf(stderr, "usage: %s NAME SECONDS MODULE...\n", arguments[0]);
        return 2;
    }
    storm_program = arguments[0];
    const double wanted = strtod(arguments[2], NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    /* SIGALRM ends a deadlock; a signal's handler has SIGALRM for its own use meanwhile. */
    timer_t end;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU};
    struct itimerspec after = {.it_value = {(time_t)wanted * 2 + MARGIN, 0}};
    if (timer_create(CLOCK_MONOTONIC, &event, &end) != 0 ||
        timer_settime(end, 0, &after, NULL) != 0)
        storm_failed("a timer", "none");
    return storms_run(arguments[1], wanted, (const char *const *)arguments + 3,
                      (unsigned)count - 3);
}
#endif
