/* fork from a process whose other threads allocate hard: each child can use the heap at once, free
 * what the parent had, start threads and fork again. A child that hangs on a lock, which was taken
 * in the parent at that moment, is killed by its alarm. */
#include "death.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUSY   4
#define FORKS  40
#define BLOCKS 300

static atomic_bool stop;
static pthread_barrier_t begun;

static void churn(unsigned *seed, void *blocks[BLOCKS], int steps)
{
    for (int i = 0; i < steps; i++) {
        size_t at = (size_t)rand_r(seed) % BLOCKS;
        size_t size = (size_t)rand_r(seed) % (rand_r(seed) % 100 == 0 ? 1 << 20 : 2000);
        hf_free(blocks[at]);
        blocks[at] = rand_r(seed) % 8 == 0 ? hf_aligned_alloc(4096, size) : hf_malloc(size);
        must(blocks[at] != NULL);
        memset(blocks[at], 1, size < 4096 ? size : 4096);
    }
}

static void empty(void *blocks[BLOCKS])
{
    for (size_t i = 0; i < BLOCKS; i++) {
        hf_free(blocks[i]);
        blocks[i] = NULL;
    }
}

static void *be_busy(void *context)
{
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = (unsigned)(size_t)context;
    pthread_barrier_wait(&begun);
    while (!atomic_load(&stop))
        churn(&seed, blocks, 500);
    empty(blocks);
    return NULL;
}

/* Starts and ends threads all the time: their data, too, is made and given back under locks. */
static void *be_short(void *unused)
{
    (void)unused;
    hf_free(hf_malloc(100));
    return NULL;
}

static void *start_short(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&begun);
    while (!atomic_load(&stop)) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, be_short, NULL) == 0);
        must(pthread_join(thread, NULL) == 0);
    }
    return NULL;
}

/* A thread without thread data uses the heap under a special lock. One thread does so all the time,
 * in a destructor of thread-specific data; each thread of a child does so once. */
static pthread_key_t late_key;

static void use_late(void *always)
{
    do
        hf_free(hf_malloc(100));
    while (always == &stop && !atomic_load(&stop));
}

static void *be_late(void *unused)
{
    (void)unused;
    hf_free(hf_malloc(100));
    pthread_setspecific(late_key, &stop);
    pthread_barrier_wait(&begun);
    return NULL;
}

/* Statistics take the region's lock, and those of spans and of jemalloc. A fork that takes long, on
 * a machine with much to do, is no error. */
static void *ask_always(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&begun);
    while (!atomic_load(&stop)) {
        struct hf_stats stats = {.size = sizeof stats};
        const int error = hf_stats(&stats);
        must(error == 0 || error == -EAGAIN);
    }
    return NULL;
}

static void *in_a_childs_thread(void *context)
{
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = (unsigned)(size_t)context;
    pthread_setspecific(late_key, &seed);
    churn(&seed, blocks, 300);
    empty(blocks);
    return NULL;
}

static void reap(pid_t child)
{
    int status = -1;
    must(child > 0);
    must(waitpid(child, &status, 0) == child);
    if (status != 0)
        dprintf(STDERR_FILENO, "a child ended with status %#x\n", (unsigned)status);
    must(status == 0);
}

static void live_as_a_child(void *parents[BLOCKS], unsigned seed)
{
    struct hf_stats stats = {.size = sizeof stats};
    alarm(patience(30));
    churn(&seed, parents, 500);
    empty(parents);
    must(hf_stats(&stats) == 0);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, in_a_childs_thread, (void *)(size_t)(seed + i)) ==
             0);
    churn(&seed, parents, 300);
    pid_t grandchild = fork();
    if (grandchild == 0) {
        churn(&seed, parents, 300);
        empty(parents);
        _exit(0);
    }
    reap(grandchild);
    for (size_t i = 0; i < 2; i++)
        must(pthread_join(threads[i], NULL) == 0);
    _exit(0);
}

static void fork_many(void *unused)
{
    (void)unused;
    pthread_t threads[BUSY + 3];
    void *blocks[BLOCKS] = {NULL};
    unsigned seed = 1;
    must(pthread_key_create(&late_key, use_late) == 0);
    must(pthread_barrier_init(&begun, NULL, BUSY + 4) == 0);
    for (size_t i = 0; i < BUSY; i++)
        must(pthread_create(&threads[i], NULL, be_busy, (char *)1 + i) == 0);
    must(pthread_create(&threads[BUSY], NULL, start_short, NULL) == 0);
    must(pthread_create(&threads[BUSY + 1], NULL, ask_always, NULL) == 0);
    must(pthread_create(&threads[BUSY + 2], NULL, be_late, NULL) == 0);
    pthread_barrier_wait(&begun);
    for (unsigned i = 0; i < (unsigned)times(FORKS); i++) {
        churn(&seed, blocks, 200);
        pid_t child = fork();
        if (child == 0)
            live_as_a_child(blocks, i + 1);
        reap(child);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < BUSY + 3; i++)
        must(pthread_join(threads[i], NULL) == 0);
    empty(blocks);
}

CALL_TEST(children_can_use_the_heap, fork_many, NULL)

int main(void)
{
    return RUN_SUITE(children_can_use_the_heap);
}
