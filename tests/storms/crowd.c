/*
 * Sixty-four threads that load, route, free and unload at once, more of them than there are
 * processors; and in the middle of it processes that fork, whose children find everything in order.
 */
#include "storms.h"

#include <homefree/homefree.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child has one thread and may inherit a held lock of the dynamic linker, so it must not load. */
static void fork_child(void)
{
    const pid_t child = fork();
    if (child == 0) {
        storm_blocks_in_child();
        _exit(0);
    }
    if (child < 0)
        return; /* the machine has no more processes */
    int status;
    STORM_MUST(waitpid(child, &status, 0) == child);
    if (status != 0) {
        char text[40];
        snprintf(text, sizeof text, "ended with status %#x", (unsigned)status);
        storm_failed("a child", text);
    }
    figures.forks++;
}

static void work(unsigned number)
{
    static _Thread_local uint64_t random;
    if (random == 0)
        random = number * UINT64_C(0x9e3779b97f4a7c15);
    const unsigned what = storm_random(&random) % 64;
    if (number == 1 && what < 32) {
        fork_child();
    } else if (what < 8) {
        storm_load(&random, modules[storm_random(&random) % module_count]);
    } else if (what < 12) {
        STORM_MUST(hf_route() >= 0);
        figures.routes++;
    } else {
        for (int i = 0; i < 50; i++)
            storm_exchange(&random, NULL);
    }
}

void storm_crowd(void)
{
    storm_threads(CROWD_MAX, work);
}
