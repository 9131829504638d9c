/* Threads that start when the region is full get no thread data of their own. malloc() returns
 * memory or NULL, free() frees, queries are answered, and the process lives on. */
#include "exhaust.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define GIVEN   50

struct share {
    void *given[GIVEN]; /* blocks of the main thread that another thread frees */
    size_t got;
};

static pthread_barrier_t together;

static void *ask_and_free(void *context)
{
    struct share *share = context;
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < 200; i++) {
        size_t size = 1 + i * 31 % 3000;
        errno = 0;
        char *p = i % 3 == 0 ? hf_calloc(1, size) : hf_malloc(size);
        if (p == NULL) {
            must(errno == ENOMEM);
        } else {
            must(hf_owns(p) && hf_usable_size(p) >= size);
            memset(p, 1, size);
            char *q = hf_realloc(p, 2 * size);
            hf_free(q != NULL ? q : p);
            share->got++;
        }
    }
    must(hf_malloc((size_t)1 << 40) == NULL);
    struct hf_owner owner = {.size = sizeof owner};
    must(hf_owner_of(share->given[0], &owner) == 0 && owner.kind == HF_OWNER_HEAP);
    struct hf_stats stats = {.size = sizeof stats};
    int result = hf_stats(&stats);
    must(result == -ENOMEM || (result == 0 && stats.allocated > 0));
    for (size_t i = 0; i < GIVEN; i++)
        hf_free(share->given[i]);
    pthread_barrier_wait(&together);
    return NULL;
}

static int part(void)
{
    static struct share shares[THREADS];
    size_t large, small, tiny;
    must(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int round = 0; round < 3; round++) {
        for (size_t t = 0; t < THREADS; t++)
            for (size_t i = 0; i < GIVEN; i++) {
                shares[t].given[i] = hf_malloc(3000);
                must(shares[t].given[i] != NULL);
            }
        struct link *first = exhaust(100000, &large);
        struct link *second = exhaust(3000, &small);
        struct link *third = exhaust(64, &tiny);
        pthread_t threads[THREADS];
        for (size_t t = 0; t < THREADS; t++)
            must(pthread_create(&threads[t], NULL, ask_and_free, &shares[t]) == 0);
        for (size_t t = 0; t < THREADS; t++)
            must(pthread_join(threads[t], NULL) == 0);
        check_links(first, large);
        check_links(second, small);
        check_links(third, tiny);
        free_links(first);
        free_links(second);
        free_links(third);
        void *p = hf_malloc(1 << 20);
        must(p != NULL);
        hf_free(p);
    }
    return 0;
}

SELF_TEST(new_threads_in_a_full_region, "HOMEFREE_CONF=region:16M", "part")

/* Until there is no memory for another thread's data either. */
static void *take_all(void *unused)
{
    size_t count;
    for (size_t size = 100000; size >= 64; size /= 4)
        (void)exhaust(size, &count);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    return unused;
}

static void *fork_first(void *given)
{
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        hf_free(hf_malloc(10));
        hf_free(given);
        must(!hf_owns(&child));
        _exit(0);
    }
    int status = -1;
    must(waitpid(child, &status, 0) == child && status == 0);
    return given;
}

/* A thread that has never used the heap forks. */
static int fork_in_full_region(void)
{
    enum { TAKERS = 100 };
    pthread_t threads[TAKERS], forker;
    void *given = hf_malloc(3000);
    must(pthread_barrier_init(&together, NULL, TAKERS + 1) == 0);
    for (size_t i = 0; i < TAKERS; i++)
        must(pthread_create(&threads[i], NULL, take_all, NULL) == 0);
    pthread_barrier_wait(&together);
    must(pthread_create(&forker, NULL, fork_first, given) == 0);
    must(pthread_join(forker, NULL) == 0);
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < TAKERS; i++)
        must(pthread_join(threads[i], NULL) == 0);
    return 0;
}

SELF_TEST(a_new_thread_forks, "HOMEFREE_CONF=region:16M", "fork")

int main(int count, char **arguments)
{
    if (count > 1)
        return strcmp(arguments[1], "fork") == 0 ? fork_in_full_region() : part();
    return RUN_SUITE(new_threads_in_a_full_region, a_new_thread_forks);
}
