/*
 * Threads that allocate, threads that only free, and threads that are born and end, on the core of
 * alloc/spans alone (core.h): to be built with ThreadSanitizer, which sees each access to a block,
 * to its state, and to the books of its span.
 *
 * usage: remote_storm SECONDS
 *
 * Each block is written to whenever it changes hands: so there must be an order between the last
 * access before a free and the first one after the allocation that follows. Blocks are of three
 * classes, with few enough blocks that spans become wholly free and change owners and classes.
 */
#include "core.h"

#include "alloc/spans/supply.h"
#include "death.h"

#include "alloc/heap/fork_gate.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 256, MAKERS = 2, FREERS = 2, BURST = 200 };

static unsigned char *slots[SLOTS];
static bool over;
static uint64_t made, freed;

static const size_t sizes[] = {48, 1024, 6000};

static unsigned char *make(unsigned *seed)
{
    const size_t size = sizes[(unsigned)rand_r(seed) % 3];
    unsigned char *block = core_take(size);
    must(block != NULL);
    memset(block, (int)size, 48);
    return block;
}

static void give(unsigned char *block)
{
    for (size_t i = 1; i < 48; i++)
        must(block[i] == block[0]);
    memset(block, 0, 48);
    must(core_give(block) == -1);
}

static unsigned char *swap(unsigned *seed, unsigned char *block)
{
    return __atomic_exchange_n(&slots[(unsigned)rand_r(seed) % SLOTS], block, __ATOMIC_ACQ_REL);
}

/* Allocates; frees what was in the place before. */
static void *maker(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    uint64_t count = 0;
    for (; !__atomic_load_n(&over, __ATOMIC_RELAXED); count++) {
        unsigned char *block = swap(&seed, make(&seed));
        if (block != NULL)
            give(block);
    }
    __atomic_add_fetch(&made, count, __ATOMIC_RELAXED);
    return NULL;
}

/* Never allocates, so it has no local heap. */
static void *freer(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    uint64_t count = 0;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        unsigned char *block = swap(&seed, NULL);
        if (block != NULL) {
            give(block);
            count++;
        } else {
            sched_yield();
        }
    }
    __atomic_add_fetch(&freed, count, __ATOMIC_RELAXED);
    return NULL;
}

/* Takes many blocks, leaves some of them to others, and ends. */
static void *mayfly(void *context)
{
    static __thread unsigned char *blocks[BURST];
    unsigned seed = (unsigned)(uintptr_t)context;
    for (size_t i = 0; i < BURST; i++)
        blocks[i] = make(&seed);
    for (size_t i = 0; i < BURST; i++) {
        unsigned char *block = i % 4 == 0 ? swap(&seed, blocks[i]) : blocks[i];
        if (block != NULL)
            give(block);
    }
    return NULL;
}

static void *births(void *context)
{
    uintptr_t seed = (uintptr_t)context;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        pthread_t threads[3];
        for (size_t i = 0; i < 3; i++)
            must(pthread_create(&threads[i], NULL, mayfly, (void *)++seed) == 0);
        for (size_t i = 0; i < 3; i++)
            must(pthread_join(threads[i], NULL) == 0);
    }
    return NULL;
}

/* What a watch, statistics and trimming do meanwhile. */
static void *looker(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        struct hf_pass pass;
        must(hf_gate_enter(&pass));
        hf_local_slow(true);
        (void)hf_spans_count();
        hf_local_slow(false);
        hf_spans_trim(false);
        hf_gate_leave(&pass);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    enum { ALL = MAKERS + FREERS + 2 };
    void *(*const bodies[ALL])(void *) = {maker, maker, freer, freer, births, looker};
    pthread_t threads[ALL];
    must(count == 2);
    core_start((size_t)1 << 30);
    for (uintptr_t i = 0; i < ALL; i++)
        must(pthread_create(&threads[i], NULL, bodies[i], (void *)(i * 1000 + 1)) == 0);
    const double seconds = strtod(arguments[1], NULL);
    nanosleep(
        &(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)},
        NULL);
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < ALL; i++)
        must(pthread_join(threads[i], NULL) == 0);
    uint64_t left = 0;
    for (size_t i = 0; i < SLOTS; i++)
        left += slots[i] != NULL;
    must(hf_spans_count().blocks == left);
    printf("%llu blocks changed hands, %llu were freed by threads without a heap\n",
           (unsigned long long)made, (unsigned long long)freed);
    return 0;
}
