/*
 * Churn over threads, after Larson and Krishnan's server workload: blocks live for a random time,
 * and some are freed by another thread than the one that allocated them. The amount of work is
 * fixed and nobody waits. A thread that does not run just now must not pile up memory, or the page
 * faults that this costs would be most of the figure: what is meant for a thread that is behind
 * goes to the one after it, and if all are behind, whoever sends empties an inbox.
 */
#include "work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum {
    SLOTS = 1000,
    SMALLEST = 16,
    LARGEST = 1024,
    SHARE = 8,    /* one block in SHARE is handed over */
    CHAIN = 16,   /* blocks that are handed over at once, so that handing over costs little */
    BEHIND = 512, /* blocks that may wait for a thread that is behind */
    THREADS_MAX = 64,
    CACHE_LINE = 64,
};

/* A block on its way to another thread; its first bytes are the link. */
struct message {
    struct message *next;
};

struct worker {
    _Alignas(CACHE_LINE) _Atomic(struct message *) inbox;
    _Atomic size_t waiting;
    char apart[CACHE_LINE - 2 * sizeof(void *)]; /* the members below belong to the thread alone */
    struct worker *next;
    struct message *chain, *chain_end;
    size_t chain_length;
    size_t index, operations;
    uint64_t random;
    void (*pin)(size_t);
    pthread_barrier_t *warm, *done;
    void *slots[SLOTS];
};

static uint64_t draw(struct worker *worker)
{
    uint64_t x = worker->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return worker->random = x;
}

static void empty_inbox(struct worker *worker)
{
    struct message *message = atomic_exchange_explicit(&worker->inbox, NULL, memory_order_acquire);
    size_t freed = 0;
    while (message != NULL) {
        struct message *next = message->next;
        free(message);
        message = next;
        freed++;
    }
    if (freed != 0)
        atomic_fetch_sub_explicit(&worker->waiting, freed, memory_order_relaxed);
}

static bool is_behind(struct worker *worker)
{
    return atomic_load_explicit(&worker->waiting, memory_order_relaxed) > BEHIND;
}

static void send_chain(struct worker *worker)
{
    struct worker *to = worker->next;
    bool behind;
    if (worker->chain == NULL)
        return;
    while ((behind = is_behind(to)) && to->next != worker)
        to = to->next;
    atomic_fetch_add_explicit(&to->waiting, worker->chain_length, memory_order_relaxed);
    struct message *first = atomic_load_explicit(&to->inbox, memory_order_relaxed);
    do
        worker->chain_end->next = first;
    while (!atomic_compare_exchange_weak_explicit(&to->inbox, &first, worker->chain,
                                                  memory_order_release, memory_order_relaxed));
    worker->chain = worker->chain_end = NULL;
    worker->chain_length = 0;
    if (behind)
        empty_inbox(to);
}

static void hand_over(struct worker *worker, void *block)
{
    struct message *message = block;
    message->next = worker->chain;
    worker->chain = message;
    if (worker->chain_end == NULL)
        worker->chain_end = message;
    if (++worker->chain_length < CHAIN)
        return;
    send_chain(worker);
    empty_inbox(worker);
}

static void replace(struct worker *worker, size_t operations)
{
    for (size_t i = 0; i < operations; i++) {
        uint64_t number = draw(worker);
        void **slot = &worker->slots[(number >> 32) % SLOTS];
        if (i % SHARE == SHARE - 1 && *slot != NULL)
            hand_over(worker, *slot);
        else
            free(*slot);
        char *block = malloc(SMALLEST + (uint32_t)number % (LARGEST - SMALLEST + 1));
        if (block == NULL)
            abort();
        *block = 1;
        *slot = block;
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    worker->pin(worker->index);
    replace(worker, worker->operations / 10 + SLOTS);
    pthread_barrier_wait(worker->warm);
    replace(worker, worker->operations);
    pthread_barrier_wait(worker->done);
    send_chain(worker);
    pthread_barrier_wait(worker->done);
    empty_inbox(worker);
    for (size_t i = 0; i < SLOTS; i++)
        free(worker->slots[i]);
    return NULL;
}

static double nanoseconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double work_churn(size_t threads, size_t operations, void (*pin)(size_t), double *cpu)
{
    static struct worker workers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t warm, done;
    if (threads == 0 || threads > THREADS_MAX)
        abort();
    pthread_barrier_init(&warm, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&done, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < threads; i++) {
        workers[i].next = &workers[(i + 1) % threads];
        workers[i].index = i;
        workers[i].operations = operations;
        workers[i].random = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
        workers[i].pin = pin;
        workers[i].warm = &warm;
        workers[i].done = &done;
    }
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, work, &workers[i]) != 0)
            abort();
    pthread_barrier_wait(&warm);
    double began = nanoseconds(CLOCK_MONOTONIC), cpu_began = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    pthread_barrier_wait(&done);
    double took = nanoseconds(CLOCK_MONOTONIC) - began;
    *cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_began;
    pthread_barrier_wait(&done);
    for (size_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    return took;
}
