/*
 * A server's churn, after the workload that Larson and Krishnan describe: each thread replaces
 * random blocks of a set; after a while it starts a successor, which inherits the set, and ends. So
 * blocks are freed by other threads than those that allocated them, and threads come and go.
 *
 * Each chain of threads has its own set; a chain's fields are its running thread's alone. The lock
 * protects the number of chains that are still running.
 */
#include "field.h"

#include <pthread.h>

enum { SLOTS = 2000, SMALLEST = 16, LARGEST = 1024, CHAINS_MAX = 64, GENERATIONS = 40 };

struct chain {
    void *slots[SLOTS];
    uint64_t random;
    size_t operations; /* of one thread */
    size_t left;       /* threads that are still to come */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static size_t running;

static void *serve(void *argument);

static void start(struct chain *chain)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, chain) != 0 || pthread_detach(thread) != 0)
        abort();
}

static void *serve(void *argument)
{
    struct chain *chain = argument;
    for (size_t i = 0; i < chain->operations; i++) {
        uint64_t number = field_draw(&chain->random);
        void **slot = &chain->slots[(uint32_t)number % SLOTS];
        free(*slot);
        *slot = field_used(malloc(SMALLEST + (number >> 32) % (LARGEST - SMALLEST)));
    }
    if (chain->left-- != 0) {
        start(chain);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    running--;
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

void field_work(const struct field_call *call)
{
    static struct chain chains[CHAINS_MAX];
    size_t threads = field_threads(call, 4);
    if (threads > CHAINS_MAX)
        abort();
    running = threads;
    for (size_t i = 0; i < threads; i++) {
        chains[i].random = field_seed(i);
        chains[i].operations = field_times(call, 16000000) / threads / GENERATIONS;
        chains[i].left = GENERATIONS - 1;
        start(&chains[i]);
    }
    pthread_mutex_lock(&lock);
    while (running != 0)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < threads; i++)
        for (size_t j = 0; j < SLOTS; j++)
            free(chains[i].slots[j]);
}
