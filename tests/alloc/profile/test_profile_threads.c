/* Profiles that begin and end while threads allocate, free each other's blocks, end, fork, and are
 * interrupted by handlers that allocate. */
#include "looking.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, PLACES = 256 };

static atomic_bool over;
static void *_Atomic places[PLACES]; /* any thread takes and leaves blocks there */

static size_t some_size(unsigned *seed)
{
    const size_t size = (size_t)rand_r(seed) % 2000;
    return size % 100 == 0 ? 40 * size : size;
}

static void exchange(unsigned *seed)
{
    void *block = hf_malloc(some_size(seed));
    if (rand_r(seed) % 4 == 0)
        block = hf_realloc(block, 1 + some_size(seed));
    must(block != NULL);
    hf_free(atomic_exchange(&places[(size_t)rand_r(seed) % PLACES], block));
}

static void *work(void *context)
{
    unsigned seed = (unsigned)(size_t)context;
    while (!atomic_load(&over))
        for (int i = 0; i < 100; i++)
            exchange(&seed);
    return NULL;
}

static void empty_places(void)
{
    for (size_t i = 0; i < PLACES; i++)
        hf_free(atomic_exchange(&places[i], NULL));
}

static void start_all(pthread_t threads[THREADS])
{
    atomic_store(&over, false);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
}

static void end_all(const pthread_t threads[THREADS])
{
    atomic_store(&over, true);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
    empty_places();
}

static void begin_and_end(void *unused)
{
    pthread_t threads[THREADS];
    unsigned seed = 99;
    (void)unused;
    start_all(threads);
    for (int round = 0; round < times(200); round++) {
        must(hf_profile_begin(round % 2 == 0 ? 1 : 3000) == 0);
        for (int i = 0; i < 50; i++)
            exchange(&seed);
        (void)look_for(NULL);
        must(hf_profile_end() == 0);
    }
    must(hf_profile_begin(1) == 0);
    end_all(threads);
    must(look_for(NULL).samples == 0);
    must(hf_profile_end() == 0);
}
CALL_TEST(test_begin_and_end, begin_and_end, NULL)

/* What a thread allocated outlives it, and its samples go when others free it. */
static void *leave_blocks(void *context)
{
    void **blocks = context;
    for (size_t i = 0; i < PLACES; i++)
        blocks[i] = hf_malloc(LARGE_ENOUGH + 10 * i);
    return NULL;
}

static void *free_blocks(void *context)
{
    void **blocks = context;
    for (size_t i = 0; i < PLACES; i += 2)
        hf_free(blocks[i]);
    return NULL;
}

static void run(void *(*function)(void *), void *context)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, function, context) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static void threads_end(void *unused)
{
    static void *blocks[PLACES];
    (void)unused;
    must(hf_profile_begin(EVERY) == 0);
    for (int round = 0; round < times(10); round++) {
        const size_t before = look_for(NULL).samples; /* what new threads take from the heap */
        run(leave_blocks, blocks);
        must(look_for(NULL).samples >= before + PLACES);
        run(free_blocks, blocks);
        for (size_t i = 0; i < PLACES; i++)
            must(look_for(blocks[i]).samples == i % 2);
        for (size_t i = 1; i < PLACES; i += 2)
            hf_free(blocks[i]);
        must(look_for(blocks[1]).samples == 0);
    }
    must(hf_profile_end() == 0);
}
CALL_TEST(test_threads_end, threads_end, NULL)

/* The profile goes on in a child, which has a copy of the samples. */
static void in_child(void *block)
{
    must(look_for(block).samples == 1);
    hf_free(block);
    must(look_for(block).samples == 0);
    void *other = hf_malloc(5000);
    must(look_for(other).samples == 1);
    must(hf_profile_begin(EVERY) == -EBUSY);
    must(hf_profile_end() == 0 && hf_profile_begin(EVERY) == 0);
    empty_places();
    _exit(0);
}

static void forks(void *unused)
{
    pthread_t threads[THREADS];
    (void)unused;
    must(hf_profile_begin(EVERY) == 0);
    void *block = hf_malloc(3000);
    start_all(threads);
    for (int i = 0; i < times(40); i++) {
        int status;
        const pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            alarm(patience(OUTCOME_SECONDS));
            in_child(block);
        }
        must(waitpid(child, &status, 0) == child && status == 0);
        must(look_for(block).samples == 1);
    }
    end_all(threads);
    hf_free(block);
    must(look_for(NULL).samples == 0);
    must(hf_profile_end() == 0);
}
CALL_TEST(test_forks, forks, NULL)

/* Small blocks: their fast paths are safe in handlers. */
static void *_Atomic from_handler;
static void handle(int number)
{
    const int saved_errno = errno;
    (void)number;
    hf_free(atomic_exchange(&from_handler, NULL));
    errno = saved_errno;
}

static void *interrupt(void *context)
{
    const pthread_t thread = *(pthread_t *)context;
    while (!atomic_load(&over))
        must(pthread_kill(thread, SIGUSR1) == 0);
    return NULL;
}

/* A handler frees sampled blocks while the thread may be making or ending a sample. */
static void handlers(void *unused)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    pthread_t self = pthread_self(), other;
    unsigned seed = 5;
    (void)unused;
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    must(hf_profile_begin(EVERY) == 0);
    atomic_store(&over, false);
    must(pthread_create(&other, NULL, interrupt, &self) == 0);
    for (int i = 0; i < times(20000); i++) {
        void *block = hf_malloc(LARGE_ENOUGH + (size_t)rand_r(&seed) % 500);
        void *left = atomic_exchange(&from_handler, block);
        hf_free(left);
        hf_free(hf_malloc(LARGE_ENOUGH));
    }
    atomic_store(&over, true);
    must(pthread_join(other, NULL) == 0);
    hf_free(atomic_exchange(&from_handler, NULL));
    hf_free(hf_malloc(LARGE_ENOUGH)); /* takes out what handlers left */
    must(look_for(NULL).samples == 0);
    must(hf_profile_end() == 0);
}
CALL_TEST(test_handlers, handlers, NULL)

int main(void)
{
    return RUN_SUITE(test_begin_and_end, test_threads_end, test_forks, test_handlers);
}
