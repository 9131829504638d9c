/* The walk finds exactly the live blocks of all threads, with their sizes, once the threads are
 * quiet; and garbage in every block that is free does the heap no harm. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 1500, ROUNDS = 6, STEPS = 20000, FREED = 4096 };

struct block {
    unsigned char *at;
    size_t size;
};

static struct worker {
    struct block blocks[BLOCKS];
    struct block freed[FREED]; /* the last ones */
    size_t freed_count;
    unsigned random;
    bool swaps; /* blocks of the next worker's */
} workers[THREADS];
static pthread_barrier_t quiet, on;

static size_t draw_size(unsigned *random)
{
    const unsigned kind = (unsigned)rand_r(random) % 100;
    return (size_t)rand_r(random) % (kind < 80 ? 300 : kind < 97 ? 20000 : 200000);
}

static unsigned char value_of(const void *at)
{
    return (unsigned char)((uintptr_t)at >> 4 | 1);
}

static void put(struct block *block, size_t size)
{
    block->at = hf_malloc(size);
    must(block->at != NULL);
    block->size = size;
    memset(block->at, value_of(block->at), size);
}

static void drop(struct worker *worker, struct block *block)
{
    for (size_t i = 0; i < block->size; i++)
        must(block->at[i] == value_of(block->at));
    hf_free(block->at);
    worker->freed[worker->freed_count++ % FREED] = *block;
    block->at = NULL;
}

static void *work(void *context)
{
    struct worker *worker = context;
    for (int round = 0; round < ROUNDS; round++) {
        for (int step = 0; step < times(STEPS); step++) {
            struct block *block = &worker->blocks[(size_t)rand_r(&worker->random) % BLOCKS];
            if (block->at != NULL)
                drop(worker, block);
            else
                put(block, draw_size(&worker->random));
        }
        pthread_barrier_wait(&quiet); /* the main thread looks */
        pthread_barrier_wait(&on);
    }
    return NULL;
}

/* ---- what the walk finds ---- */

static struct block *found;
static size_t found_count, found_capacity;

static int note(void *context, void *ptr, size_t size)
{
    (void)context;
    must(found_count < found_capacity);
    found[found_count++] = (struct block){ptr, size};
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static size_t walk(void)
{
    found_count = 0;
    must(hf_heap_walk(NULL, note, NULL) == 0);
    qsort(found, found_count, sizeof *found, compare);
    for (size_t i = 1; i < found_count; i++)
        must(found[i - 1].at + found[i - 1].size <= found[i].at);
    return found_count;
}

static void check_walk(size_t others)
{
    size_t live = 0;
    walk();
    for (size_t i = 0; i < THREADS; i++)
        for (size_t j = 0; j < BLOCKS; j++) {
            const struct block *block = &workers[i].blocks[j];
            if (block->at == NULL)
                continue;
            live++;
            const struct block *seen = bsearch(block, found, found_count, sizeof *found, compare);
            must(seen != NULL && seen->size == hf_usable_size(block->at));
        }
    must(found_count >= live && found_count <= live + others);
}

/* ---- garbage ---- */

static bool is_free(const struct block *block)
{
    size_t low = 0, high = found_count; /* the first one that ends behind the block's start */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (found[middle].at + found[middle].size <= block->at)
            low = middle + 1;
        else
            high = middle;
    }
    return low == found_count || found[low].at >= block->at + block->size;
}

/* Through the kernel: the block may have no memory any more. */
static void write_garbage(const struct block *block)
{
    static char garbage[1 << 18];
    memset(garbage, 0xa5, sizeof garbage);
    const struct iovec from = {garbage, block->size}, to = {block->at, block->size};
    (void)process_vm_writev(getpid(), &from, 1, &to, 1, 0);
}

static int part(bool garbage)
{
    enum { ROOM = 1 << 20 };
    pthread_t threads[THREADS];
    found_capacity = ROOM;
    found = calloc(ROOM, sizeof *found); /* libc's */
    must(!hf_owns(found));
    const size_t others = walk() + 100; /* libhomefree's own, and of threads that begin */
    pthread_barrier_init(&quiet, NULL, THREADS + 1);
    pthread_barrier_init(&on, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].random = (unsigned)i + 1;
        must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&quiet);
        check_walk(others);
        for (size_t i = 0; garbage && i < THREADS; i++)
            for (size_t j = 0; j < FREED && j < workers[i].freed_count; j++)
                if (is_free(&workers[i].freed[j]))
                    write_garbage(&workers[i].freed[j]);
        if (round == ROUNDS / 2) /* what one freed, another may get */
            for (size_t i = 0; i < BLOCKS; i += 2) {
                const struct block block = workers[0].blocks[i];
                workers[0].blocks[i] = workers[1].blocks[i];
                workers[1].blocks[i] = block;
            }
        pthread_barrier_wait(&on);
    }
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
    return 0;
}

SELF_TEST(finds_the_live_blocks, "HOMEFREE_CONF=checks:default", "walk")
SELF_TEST(finds_those_of_hardened, "HOMEFREE_CONF=checks:hardened", "walk")
SELF_TEST(finds_those_of_full, "HOMEFREE_CONF=checks:full", "walk")
SELF_TEST(garbage_does_no_harm, "HOMEFREE_CONF=checks:default", "garbage")

/* So it was really written. */
START_TEST(garbage_is_found_by_hardened)
{
    assert_killed(OUTCOME_OF_SELF("HOMEFREE_CONF=checks:hardened", "garbage"), SIGABRT,
                  "homefree: fatal: ", "written");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return part(strcmp(argv[1], "garbage") == 0);
    return RUN_SUITE(finds_the_live_blocks, finds_those_of_hardened, finds_those_of_full,
                     garbage_does_no_harm, garbage_is_found_by_hardened);
}
