/* A thread that ends returns its full caches and its own data to the heap. */
#include "death.h"
#include "growth.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <string.h>

#define THREADS 8
#define BLOCKS  4000

static void *fill_caches(void *unused)
{
    static _Thread_local char *blocks[BLOCKS];
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = hf_malloc(1 + i * 13 % (i % 10 == 0 ? 33000 : 1000));
        must(blocks[i] != NULL);
        blocks[i][0] = 1;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        hf_free(blocks[i]);
    return NULL;
}

static void one_round(void *unused)
{
    (void)unused;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, fill_caches, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

START_TEST(caches_come_back)
{
    /* The full caches of one thread hold far more than the growth allowed to all threads: what is
     * kept for the next ones (2 MiB at most), and as much again. */
    assert_no_growth(one_round, NULL, 4, 16, 4 << 20);
}
END_TEST

static void *allocate_only(void *out)
{
    char **blocks = out;
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = hf_malloc(100 + i);
        must(blocks[i] != NULL);
        memset(blocks[i], (int)i, 100 + i);
    }
    return NULL;
}

START_TEST(a_threads_blocks_outlive_it)
{
    char *blocks[THREADS][100];
    for (size_t t = 0; t < THREADS; t++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, allocate_only, blocks[t]), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    for (size_t t = 0; t < THREADS; t++)
        for (size_t i = 0; i < 100; i++) {
            for (size_t at = 0; at < 100 + i; at++)
                ck_assert_int_eq(blocks[t][i][at], (int)i);
            hf_free(blocks[t][i]);
        }
}
END_TEST

int main(void)
{
    return RUN_SUITE(caches_come_back, a_threads_blocks_outlive_it);
}
