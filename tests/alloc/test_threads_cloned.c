/* In a child that clone(2) made, where no fork handler has run, threads begin and end as in any
 * process: none gets the blocks of another. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 100, ROUNDS = 20, BLOCKS = 50, SIZE = 40 };

static pthread_barrier_t all_began;

static void use(int byte)
{
    char expected[SIZE], *blocks[BLOCKS];
    memset(expected, byte, SIZE);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = hf_malloc(SIZE);
            must(blocks[i] != NULL);
            memcpy(blocks[i], expected, SIZE);
        }
        (void)sched_yield();
        for (int i = 0; i < BLOCKS; i++) {
            must(memcmp(blocks[i], expected, SIZE) == 0);
            hf_free(blocks[i]);
        }
    }
}

static void *run(void *argument)
{
    use((int)(uintptr_t)argument);
    (void)pthread_barrier_wait(&all_began);
    use((int)(uintptr_t)argument);
    return NULL;
}

static void use_threads(void *unused)
{
    (void)unused;
    pthread_t threads[THREADS];
    must(pthread_barrier_init(&all_began, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

static void in_a_clone(void *unused)
{
    int status;
    hf_free(hf_malloc(1));
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    must(child >= 0);
    if (child == 0) {
        use_threads(unused);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
}

START_TEST(threads_in_a_clone)
{
    assert_succeeds(outcome_of_call(use_threads, NULL));
    assert_succeeds(outcome_of_call(in_a_clone, NULL));
}
END_TEST

int main(void)
{
    return RUN_SUITE(threads_in_a_clone);
}
