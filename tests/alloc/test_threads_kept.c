/* What a thread leaves at its end serves the next one: no page faults for each thread, also in a
 * forked child; and it goes back when no thread wants it for dirty_decay_ms. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 200

static void *use(void *unused)
{
    void *blocks[64];
    (void)unused;
    for (size_t i = 0; i < 64; i++) {
        blocks[i] = hf_malloc(16 * (i + 1));
        must(blocks[i] != NULL);
        memset(blocks[i], 1, 16 * (i + 1));
    }
    for (size_t i = 0; i < 64; i++)
        hf_free(blocks[i]);
    return NULL;
}

static void run_in_turn(int count)
{
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, use, NULL) == 0);
        must(pthread_join(thread, NULL) == 0);
    }
}

static void run_together(size_t count)
{
    pthread_t threads[64];
    must(count <= 64);
    for (size_t i = 0; i < count; i++)
        must(pthread_create(&threads[i], NULL, use, NULL) == 0);
    for (size_t i = 0; i < count; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

static long faults_of(int count)
{
    struct rusage before, after;
    run_in_turn(4);
    must(getrusage(RUSAGE_SELF, &before) == 0);
    run_in_turn(count);
    must(getrusage(RUSAGE_SELF, &after) == 0);
    return after.ru_minflt - before.ru_minflt;
}

/* In one of a few rounds: what else the process does meanwhile takes page faults, too. A forked
 * child copies pages as it takes over what threads left that it does not have. */
static bool take_no_pages(int count)
{
    for (int round = 0; round < 5; round++)
        if (faults_of(count) < count)
            return true;
    return false;
}

START_TEST(threads_in_turn_take_no_pages)
{
    ck_assert(take_no_pages(THREADS));
}
END_TEST

static void be_a_child(void *unused)
{
    (void)unused;
    run_together(40); /* more than are kept */
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        must(child >= 0);
        if (child == 0) {
            alarm(patience(30));
            struct hf_stats stats = {.size = sizeof stats};
            must(take_no_pages(THREADS / 2));
            run_together(40);
            must(hf_stats(&stats) == 0);
            _exit(0);
        }
        int status = -1;
        must(waitpid(child, &status, 0) == child && status == 0);
    }
}

CALL_TEST(children_take_it_over, be_a_child, NULL)

static uint64_t active_bytes(void)
{
    struct hf_stats stats = {.size = sizeof stats};
    must(hf_stats(&stats) == 0);
    return stats.active;
}

static void use_slow_paths(int count)
{
    for (int i = 0; i < count; i++)
        hf_free(hf_malloc(100000));
}

/* What threads have kept goes back some time after 20 ms, as slow paths come along; or at once,
 * with the last of them, if the process has had time enough to earn that. */
static int see_it_go_back(void)
{
    enum { LITTLE = 32 << 10 };
    use_slow_paths(600);
    const uint64_t before = active_bytes();
    run_together(20);
    const uint64_t kept = active_bytes();
    for (int tries = 0; kept > before + LITTLE && active_bytes() + LITTLE > kept; tries++) {
        must(tries < 20000);
        use_slow_paths(300);
        usleep(1000);
    }
    return EXIT_SUCCESS;
}

START_TEST(it_goes_back)
{
    assert_succeeds(OUTCOME_OF_SELF("HOMEFREE_CONF=dirty_decay_ms:20", "decay"));
}
END_TEST

enum { TOGETHER = 16 };
static pthread_barrier_t everybody;

static void *have_much(void *unused)
{
    enum { COUNT = 512, SIZE = 16 << 10 };
    void *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = hf_malloc(SIZE);
        must(blocks[i] != NULL);
        memset(blocks[i], 1, SIZE);
    }
    pthread_barrier_wait(&everybody);
    for (size_t i = 0; i < COUNT; i++)
        hf_free(blocks[i]);
    return unused;
}

/* Sixteen threads free 8 MiB each and end. Whoever is left does not come
 * along. */
static int leave_little(void)
{
    struct hf_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    pthread_t threads[TOGETHER];
    hf_free(hf_malloc(1));
    must(hf_stats(&before) == 0);
    must(pthread_barrier_init(&everybody, NULL, TOGETHER) == 0);
    for (int i = 0; i < TOGETHER; i++)
        must(pthread_create(&threads[i], NULL, have_much, NULL) == 0);
    for (int i = 0; i < TOGETHER; i++)
        must(pthread_join(threads[i], NULL) == 0);
    must(hf_stats(&after) == 0);
    must(after.resident < before.resident + ((uint64_t)64 << 20));
    return EXIT_SUCCESS;
}

SELF_TEST(peaks_go_back_at_once, NULL, "peak")

int main(int argc, char **argv)
{
    if (argc > 1)
        return strcmp(argv[1], "peak") == 0 ? leave_little() : see_it_go_back();
    return RUN_SUITE(threads_in_turn_take_no_pages, children_take_it_over, it_goes_back,
                     peaks_go_back_at_once);
}
