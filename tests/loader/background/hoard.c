/*
 * A program that grows until its cgroup's limit: with libc's memory that is free, but below blocks
 * in use, or with memory of the heap that is in use.
 *
 * usage: hoard free|live MEBIBYTES
 */
#include "require.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 24, BLOCK = 100000, BLOCKS = (STEP << 20) / BLOCK };

/* What a program does between two steps. */
static void rest(long milliseconds)
{
    const struct timespec pause = {.tv_nsec = milliseconds * 1000000};
    (void)nanosleep(&pause, NULL);
}

static pthread_barrier_t step_is_done;

/* Each thread has an arena of libc's, which cannot shrink while the last block is in use. */
static void *leave_free(void *unused)
{
    static __thread void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        REQUIRE((blocks[i] = malloc(BLOCK)) != NULL);
        memset(blocks[i], 1, BLOCK);
    }
    for (size_t i = 0; i < BLOCKS - 1; i++)
        free(blocks[i]);
    (void)pthread_barrier_wait(&step_is_done);
    (void)pause();
    return unused;
}

/* In smaller steps, but about as fast. */
static void keep_live(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        void *block = hf_malloc(BLOCK);
        REQUIRE(block != NULL);
        memset(block, 1, BLOCK);
        if (i % 24 == 0)
            rest(20);
    }
}

int main(int count, char **arguments)
{
    REQUIRE(count == 3);
    const long steps = strtol(arguments[2], NULL, 10) / STEP;
    REQUIRE(pthread_barrier_init(&step_is_done, NULL, 2) == 0);
    for (long i = 0; i < steps; i++) {
        pthread_t thread;
        if (strcmp(arguments[1], "live") == 0) {
            keep_live();
        } else {
            REQUIRE(pthread_create(&thread, NULL, leave_free, NULL) == 0);
            (void)pthread_barrier_wait(&step_is_done);
            rest(100);
        }
    }
    puts("done");
    return 0;
}
