/* Blocks pass between threads in batches: what one thread frees serves another, nothing is lost,
 * and what nobody comes for goes home. */
#include "death.h"
#include "heap.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 4000 };
static const size_t sizes[] = {8, 48, 100, 1000, 5000, 14336, 16384, 32768};

struct blocks {
    void *at[MANY];
    size_t count, size;
};

static void *allocate(void *context)
{
    struct blocks *blocks = context;
    for (size_t i = 0; i < blocks->count; i++) {
        unsigned char *block = blocks->at[i] = hf_malloc(blocks->size);
        must(block != NULL);
        memset(block, (int)(i % 251), blocks->size);
    }
    return NULL;
}

static void *release(void *context)
{
    struct blocks *blocks = context;
    for (size_t i = 0; i < blocks->count; i++) {
        const unsigned char *block = blocks->at[i];
        must(block[0] == i % 251 && block[blocks->size - 1] == i % 251);
        hf_free(blocks->at[i]);
    }
    return NULL;
}

static void in_thread(void *function(void *), void *context)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, function, context) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static void hand_over(void)
{
    static struct blocks blocks;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        blocks = (struct blocks){.size = sizes[i], .count = sizes[i] > 4096 ? 300 : MANY};
        for (int round = 0; round < 4; round++) {
            in_thread(allocate, &blocks);
            in_thread(release, &blocks);
        }
    }
}

START_TEST(what_threads_hand_over_is_whole_and_counted)
{
    hand_over();
    const uint64_t before = stats_now().allocated;
    hand_over();
    ck_assert_uint_eq(stats_now().allocated, before);
}
END_TEST

/* calloc's blocks have been live before, and marked in between. */
START_TEST(zeroed_blocks_are_zero)
{
    static struct blocks blocks = {.size = 100, .count = MANY};
    static const unsigned char zeros[100];
    allocate(&blocks);
    release(&blocks);
    for (size_t i = 0; i < MANY; i++) {
        blocks.at[i] = hf_calloc(1, 100);
        ck_assert_mem_eq(blocks.at[i], zeros, 100);
    }
    for (size_t i = 0; i < MANY; i++)
        hf_free(blocks.at[i]);
}
END_TEST

/* A mark left in a block would make the next free of it look like a double one. */
START_TEST(blocks_that_nobody_writes_to_pass_again)
{
    static void *blocks[MANY];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++)
            blocks[i] = hf_malloc(64);
        for (size_t i = 0; i < MANY; i++)
            hf_free(blocks[i]);
    }
}
END_TEST

/* A forked child finds the blocks that wait there, and each once. */
START_TEST(a_child_gets_each_block_once)
{
    static struct blocks blocks = {.size = 200, .count = MANY};
    allocate(&blocks);
    release(&blocks);
    const pid_t child = fork();
    if (child == 0) {
        allocate(&blocks);
        release(&blocks);
        hand_over();
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    allocate(&blocks);
    release(&blocks);
}
END_TEST

/* A thread that does little else looks at its cache and at the depot every few milliseconds. */
START_TEST(blocks_that_nobody_comes_for_go_home)
{
    static struct blocks blocks = {.size = 1000,
                                   .count = 480}; /* as many as the depot has room for */
    const uint64_t before = stats_now().active;
    allocate(&blocks);
    release(&blocks);
    const uint64_t after = stats_now().active;
    const time_t end = time(NULL) + 60;
    while (stats_now().active > before + (after - before) / 4) {
        ck_assert_int_lt(time(NULL), end);
        for (int i = 0; i < 64; i++)
            hf_free(hf_malloc(16000));
    }
}
END_TEST

/* The first thread has no arena of its own before it allocates, and looks like the others. */
enum { SLICE = 64 };
static struct {
    pthread_barrier_t barrier;
    void *at[SLICE];
    bool over;
} slices;

static void *allocate_slices(void *unused)
{
    static struct blocks blocks = {.size = 48, .count = MANY};
    (void)unused;
    while (!slices.over) {
        allocate(&blocks);
        release(&blocks);
        for (size_t i = 0; i < SLICE; i++)
            slices.at[i] = hf_malloc(100000); /* larger than what is cached */
        pthread_barrier_wait(&slices.barrier);
        pthread_barrier_wait(&slices.barrier);
    }
    return NULL;
}

static void only_free(void *unused)
{
    pthread_t thread;
    struct timespec start, now;
    (void)unused;
    must(pthread_barrier_init(&slices.barrier, NULL, 2) == 0);
    must(pthread_create(&thread, NULL, allocate_slices, NULL) == 0);
    must(clock_gettime(CLOCK_MONOTONIC, &start) == 0);
    do {
        pthread_barrier_wait(&slices.barrier);
        for (size_t i = 0; i < SLICE; i++)
            hf_free(slices.at[i]);
        must(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        slices.over = now.tv_sec - start.tv_sec >= 2;
        pthread_barrier_wait(&slices.barrier);
    } while (!slices.over);
    must(pthread_join(thread, NULL) == 0);
}

CALL_TEST(a_thread_that_only_frees_looks_too, only_free, NULL)

int main(void)
{
    return RUN_SUITE(a_thread_that_only_frees_looks_too,
                     what_threads_hand_over_is_whole_and_counted, zeroed_blocks_are_zero,
                     blocks_that_nobody_writes_to_pass_again, a_child_gets_each_block_once,
                     blocks_that_nobody_comes_for_go_home);
}
