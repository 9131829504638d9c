/*
 * A program that has used up its thread-specific keys before libhomefree is loaded: the heap starts
 * all the same, and what threads leave behind when they end is used by the next ones.
 *
 * usage: test-no-keys late|preloaded LIBHOMEFREE     (preloaded: with no_keys.c behind it)
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3000, TOGETHER = 8, BLOCKS = 400, BLOCK = 256 };

static void *(*heap_malloc)(size_t);
static void (*heap_free)(void *);
static bool (*heap_owns)(const void *);

#define REQUIRE(condition)                                                  \
    do                                                                      \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(EXIT_FAILURE);                                             \
        }                                                                   \
    while (0)

static long resident_kilobytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* No other thread writes to a thread's blocks while it lives. */
static void *work(void *context)
{
    unsigned char *blocks[BLOCKS];
    const unsigned char mark = (unsigned char)(uintptr_t)context;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = heap_malloc(BLOCK);
        REQUIRE(blocks[i] != NULL && heap_owns(blocks[i]));
        memset(blocks[i], mark, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE(blocks[i][0] == mark && memcmp(blocks[i], blocks[i] + 1, BLOCK - 1) == 0);
        heap_free(blocks[i]);
    }
    return NULL;
}

static void run_threads(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        pthread_t threads[TOGETHER];
        for (uintptr_t i = 0; i < TOGETHER; i++)
            REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
        for (int i = 0; i < TOGETHER; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
}

static void *fork_in_thread(void *context)
{
    (void)context;
    work((void *)9);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        /* The child's only thread keeps its data while other threads come and go. */
        unsigned char *block = heap_malloc(BLOCK);
        memset(block, 77, BLOCK);
        run_threads(20);
        for (int at = 0; at < BLOCK; at++)
            REQUIRE(block[at] == 77);
        heap_free(block);
        _exit(EXIT_SUCCESS);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_key_t key;
    REQUIRE(count == 3);
    while (strcmp(arguments[1], "late") == 0 && pthread_key_create(&key, NULL) == 0)
        ;
    REQUIRE(pthread_key_create(&key, NULL) != 0);
    void *heap = dlopen(arguments[2], RTLD_NOW);
    REQUIRE(heap != NULL);
    heap_malloc = (void *(*)(size_t))dlsym(heap, "hf_malloc");
    heap_free = (void (*)(void *))dlsym(heap, "hf_free");
    heap_owns = (bool (*)(const void *))dlsym(heap, "hf_owns");
    REQUIRE(heap_malloc != NULL && heap_free != NULL && heap_owns != NULL);

    work((void *)5);
    run_threads(ROUNDS / 10);
    const long before = resident_kilobytes();
    run_threads(ROUNDS);
    const long grown = resident_kilobytes() - before;
    printf("%ld KiB more after %d threads\n", grown, ROUNDS * TOGETHER);
    /* Threads that ended are found when one begins. On a busy machine that is after some more; all
     * local heaps would take 2 GB. */
    REQUIRE(grown < 32768);

    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, fork_in_thread, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    run_threads(20);
    return EXIT_SUCCESS;
}
