/* What a phase of a program leaves goes back while it is being freed: the program may do nothing
 * afterwards that would give the heap an occasion. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/* In use, in bytes. */
static size_t resident(void)
{
    char text[128], *rest;
    FILE *statm = fopen("/proc/self/statm", "re");
    must(statm != NULL && fgets(text, sizeof text, statm) != NULL && fclose(statm) == 0);
    (void)strtoul(text, &rest, 10);
    return strtoul(rest, NULL, 10) * 4096;
}

static uint64_t milliseconds(void)
{
    struct timespec now;
    must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Giving back may take a part of the time that there was, so there must be some. */
enum { PHASE = 1000 };

/* Some calls take slow paths meanwhile, or none at all does. */
static void go_on(bool calls)
{
    for (const uint64_t began = milliseconds(); milliseconds() < began + PHASE;)
        if (calls)
            hf_free(hf_malloc(100000));
}

static void have(size_t count, size_t least, size_t most, bool calls)
{
    const size_t before = resident();
    char **blocks = malloc(count * sizeof *blocks);
    must(blocks != NULL);
    for (size_t i = 0; i < count; i++) {
        const size_t size = least + i * 7919 % (most - least);
        blocks[i] = hf_malloc(size);
        must(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    go_on(calls);
    must(resident() > before + 30 * MIB);
    for (size_t i = 0; i < count; i++) /* in another order */
        hf_free(blocks[i * 7919 % count]);
    free(blocks);
    must(resident() < before + 12 * MIB);
}

START_TEST(large_blocks_go_back)
{
    have(64, MIB / 2, MIB, false);
    have(64, MIB / 2, MIB, true);
}
END_TEST

START_TEST(small_blocks_go_back)
{
    have(100000, 16, 1000, false);
    have(100000, 16, 1000, true);
}
END_TEST

static void *replace(void *unused)
{
    enum { SLOTS = 2000, TIMES = 300000, MOST = 16384 };
    char **slots = calloc(SLOTS, sizeof *slots);
    must(slots != NULL);
    for (size_t i = 0; i < TIMES; i++) {
        const size_t size = 16 + i * 7919 % (MOST - 16);
        char **slot = &slots[i * 104729 % SLOTS];
        hf_free(*slot);
        must((*slot = hf_malloc(size)) != NULL);
        memset(*slot, 1, size);
    }
    for (size_t i = 0; i < SLOTS; i++)
        hf_free(slots[i]);
    free(slots);
    return unused;
}

/* They end, and whoever is left has no occasion to give anything back. */
START_TEST(what_threads_leave_goes_back)
{
    pthread_t threads[2];
    const size_t before = resident();
    for (int i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, replace, NULL) == 0);
    for (int i = 0; i < 2; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(resident() < before + 4 * MIB);
}
END_TEST

static void *fill_and_free(void *blocks)
{
    enum { COUNT = 30000, SIZE = 1000 };
    char **all = blocks;
    for (size_t i = 0; i < COUNT; i++) {
        must((all[i] = hf_malloc(SIZE)) != NULL);
        memset(all[i], 1, SIZE);
    }
    for (size_t i = 0; i < COUNT; i++)
        hf_free(all[i * 7919 % COUNT]);
    return NULL;
}

/* Nothing but one thread, and processor time that pays for what its end gives back. */
static bool one_thread_leaves_nothing(void)
{
    static char *blocks[30000];
    pthread_t thread;
    const size_t before = resident();
    for (const clock_t began = clock(); clock() < began + CLOCKS_PER_SEC / 2;)
        continue;
    must(pthread_create(&thread, NULL, fill_and_free, blocks) == 0);
    must(pthread_join(thread, NULL) == 0);
    return resident() < before + 8 * MIB;
}

/* Its processor time begins anew; what its parent has paid does not count. */
START_TEST(what_threads_of_a_forked_child_leave_goes_back)
{
    int status;
    go_on(false);
    must(one_thread_leaves_nothing());
    go_on(false);
    must(one_thread_leaves_nothing());
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0)
        _exit(one_thread_leaves_nothing() ? 0 : 1);
    must(waitpid(child, &status, 0) == child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* A program that uses as much again and again does not take page faults for it all the time. */
START_TEST(what_is_reused_stays)
{
    enum { COUNT = 32, TIMES = 200 };
    char *blocks[COUNT];
    size_t absent = 0;
    go_on(true);
    for (int i = 0; i < TIMES; i++) {
        const size_t before = resident();
        for (size_t k = 0; k < COUNT; k++)
            must((blocks[k] = hf_malloc(MIB)) != NULL);
        for (size_t k = 0; k < COUNT; k++)
            memset(blocks[k], 1, MIB);
        absent += resident() - before > 16 * MIB;
        for (size_t k = 0; k < COUNT; k++)
            hf_free(blocks[k]);
    }
    ck_assert_uint_lt(absent, TIMES / 10);
}
END_TEST

int main(void)
{
    return RUN_SUITE(large_blocks_go_back, small_blocks_go_back, what_threads_leave_goes_back,
                     what_threads_of_a_forked_child_leave_goes_back, what_is_reused_stays);
}
