/* Address space that one thread's local heap has freed can be had by every other thread: threads
 * fill a bounded heap in turn and free all of it, and then one thread gets nearly all again,
 * whatever bounds the heap (the region, RLIMIT_AS, RLIMIT_DATA) and whatever the sizes were. Each
 * thread used to keep what it had got once: of 1 GiB, the last one got 77 MiB. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MIB     ((size_t)1 << 20)
#define THREADS 8

struct link {
    struct link *next;
};

/* Fills the heap with blocks of one size until it is full. */
static size_t fill(size_t size, struct link **first)
{
    size_t bytes = 0;
    struct link *link;
    for (*first = NULL; (link = hf_malloc(size)) != NULL; bytes += size) {
        link->next = *first;
        *first = link;
    }
    return bytes;
}

static void empty(struct link *first)
{
    while (first != NULL) {
        struct link *next = first->next;
        hf_free(first);
        first = next;
    }
}

struct turn {
    pthread_barrier_t ready, go, filled, over;
    size_t size, bytes;
};

/* Fills the heap, frees the blocks and stays alive, so that its arena and its cache stay in use. */
static void *take_turn(void *context)
{
    struct turn *turn = context;
    struct link *first;
    hf_free(hf_malloc(100)); /* gets an arena of its own if there is room for one */
    pthread_barrier_wait(&turn->ready);
    pthread_barrier_wait(&turn->go);
    turn->bytes = fill(turn->size, &first);
    empty(first);
    pthread_barrier_wait(&turn->filled);
    pthread_barrier_wait(&turn->over);
    return NULL;
}

/* Arguments: the block size of all threads, that of the last thread, and the percentage of the
 * first thread's yield that the last one must reach. */
static int part(char **arguments)
{
    static struct turn turns[THREADS];
    static pthread_t threads[THREADS];
    size_t size = strtoull(arguments[0], NULL, 10), last = strtoull(arguments[1], NULL, 10);
    size_t percent = strtoull(arguments[2], NULL, 10);
    for (size_t i = 0; i < THREADS; i++) {
        turns[i].size = size;
        must(pthread_barrier_init(&turns[i].ready, NULL, 2) == 0);
        must(pthread_barrier_init(&turns[i].go, NULL, 2) == 0);
        must(pthread_barrier_init(&turns[i].filled, NULL, 2) == 0);
        must(pthread_barrier_init(&turns[i].over, NULL, 2) == 0);
        must(pthread_create(&threads[i], NULL, take_turn, &turns[i]) == 0);
        pthread_barrier_wait(&turns[i].ready);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_barrier_wait(&turns[i].go);
        pthread_barrier_wait(&turns[i].filled);
        printf("%zu\n", turns[i].bytes);
        must(turns[i].bytes >= turns[0].bytes / 100 * percent);
    }
    struct link *first;
    size_t bytes = fill(last, &first);
    printf("%zu\n", bytes);
    must(bytes >= turns[0].bytes / 100 * percent);
    empty(first);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_barrier_wait(&turns[i].over);
        must(pthread_join(threads[i], NULL) == 0);
    }
    must(fill(last, &first) >= turns[0].bytes / 100 * percent);
    empty(first);
    return 0;
}

/* With small blocks, the metadata of the spans that there were at the peak stays. */
#define LARGE_PERCENT "90"
#define SMALL_PERCENT "75"

static void run(const char *configuration, const char *size, const char *last, rlim_t address_space,
                int (*prepare)(void))
{
    const char *percent = strlen(size) < 6 || strlen(last) < 6 ? SMALL_PERCENT : LARGE_PERCENT;
    const char *const arguments[] = {own_path(), size, last, percent, NULL};
    const char *const environment[] = {configuration, NULL};
    const struct program program = {.arguments = arguments,
                                    .environment = environment,
                                    .address_space = address_space,
                                    .prepare = prepare};
    struct outcome outcome;
    outcome_of_program(&outcome, &program);
    assert_exited(&outcome, 0, 0, "");
}

static int limit_data(void)
{
    return setrlimit(RLIMIT_DATA, &(struct rlimit){1024 * MIB, 1024 * MIB});
}

/* A test that runs part() once. */
#define SPACE_TEST(name, ...) \
    START_TEST(name)          \
    {                         \
        run(__VA_ARGS__);     \
    }                         \
    END_TEST

SPACE_TEST(large_in_a_bounded_region, "HOMEFREE_CONF=region:1G", "1048576", "1048576", 0, NULL)
SPACE_TEST(larger_after_large, "HOMEFREE_CONF=region:1G", "1048576", "8388608", 0, NULL)
SPACE_TEST(large_after_small, "HOMEFREE_CONF=region:256M", "8192", "1048576", 0, NULL)
SPACE_TEST(small_after_large, "HOMEFREE_CONF=region:256M", "1048576", "8192", 0, NULL)
SPACE_TEST(limit_on_address_space, "HOMEFREE_CONF=", "1048576", "1048576", 2048 * MIB, NULL)
SPACE_TEST(limit_on_data, "HOMEFREE_CONF=", "1048576", "8388608", 0, limit_data)
SPACE_TEST(limit_on_data_small, "HOMEFREE_CONF=", "8192", "1048576", 0, limit_data)

int main(int argc, char **argv)
{
    if (argc > 1)
        return part(argv + 1);
    return RUN_SUITE(large_in_a_bounded_region, larger_after_large, large_after_small,
                     small_after_large, limit_on_address_space, limit_on_data, limit_on_data_small);
}
