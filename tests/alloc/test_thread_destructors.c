/* Destructors of thread-specific data that use the heap after the heap's own has run, in each of
 * the rounds that pthreads makes, lose neither blocks nor the thread's data. */
#include "death.h"
#include "growth.h"

#include <homefree/homefree.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define KEYS 8

static pthread_key_t keys[KEYS];
static _Thread_local int rounds[KEYS];
static atomic_int most_rounds;

/* Frees the value and sets a new one, which causes one more round. */
static void destroy(size_t key, void *value)
{
    must(*(size_t *)value == key);
    hf_free(value);
    int round = ++rounds[key];
    if (round > atomic_load(&most_rounds))
        atomic_store(&most_rounds, round);
    for (size_t size = 1; size < 100000; size = size * 3 + key) {
        char *p = hf_malloc(size);
        must(p != NULL && hf_owns(p));
        memset(p, 1, size);
        p = hf_realloc(p, size + 8);
        must(p != NULL && p[size - 1] == 1);
        memset(p, 1, size + 8);
        p = hf_realloc(p, size + 100);
        must(p != NULL && p[size - 1] == 1);
        hf_free(p);
    }
    if (round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        size_t *next = hf_calloc(1, 1000);
        must(next != NULL);
        *next = key;
        must(pthread_setspecific(keys[key], next) == 0);
    }
}

/* A destructor does not get its key. */
#define DESTROY(key)                       \
    static void destroy_##key(void *value) \
    {                                      \
        destroy(key, value);               \
    }
DESTROY(0)
DESTROY(1)
DESTROY(2)
DESTROY(3)
DESTROY(4)
DESTROY(5)
DESTROY(6)
DESTROY(7)

static void make_keys(void)
{
    static void (*const destructors[KEYS])(void *) = {destroy_0, destroy_1, destroy_2, destroy_3,
                                                      destroy_4, destroy_5, destroy_6, destroy_7};
    for (size_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(pthread_key_create(&keys[i], destructors[i]), 0);
}

static void set_value(size_t key)
{
    size_t *value = hf_malloc(sizeof *value);
    must(value != NULL);
    *value = key;
    must(pthread_setspecific(keys[key], value) == 0);
}

static void *set_all(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < KEYS; i++)
        set_value(i);
    return NULL;
}

static void *set_last(void *unused)
{
    (void)unused;
    set_value(KEYS - 1);
    return NULL;
}

static void run_thread(void *body)
{
    pthread_t thread;
    void *(*start)(void *) = *(void *(**)(void *))body;
    must(pthread_create(&thread, NULL, start, NULL) == 0);
    must(pthread_join(thread, NULL) == 0);
}

START_TEST(many_keys_in_every_round)
{
    void *(*body)(void *) = set_all;
    make_keys();
    /* The data of one thread takes 2.6 KB. */
    assert_no_growth(run_thread, &body, 20, 200, 256 << 10);
    ck_assert_int_eq(most_rounds, PTHREAD_DESTRUCTOR_ITERATIONS);
}
END_TEST

START_TEST(one_key_in_every_round)
{
    void *(*body)(void *) = set_last;
    make_keys();
    assert_no_growth(run_thread, &body, 20, 200, 256 << 10);
}
END_TEST

/* Threads that have lost their own data share one, under a lock. */
static void end_together(void *unused)
{
    pthread_t threads[8];
    (void)unused;
    for (size_t i = 0; i < 8; i++)
        must(pthread_create(&threads[i], NULL, set_all, NULL) == 0);
    for (size_t i = 0; i < 8; i++)
        must(pthread_join(threads[i], NULL) == 0);
}

START_TEST(many_threads_at_once)
{
    make_keys();
    assert_no_growth(end_together, NULL, 10, 60, 2 << 20);
}
END_TEST

/* Another thread made the value, so this thread uses the heap for the first time in a destructor,
 * in the first round. */
static void destroy_foreign(void *value)
{
    hf_free(value);
    hf_free(hf_malloc(100));
}

static pthread_key_t late_key;

static void *set_given(void *value)
{
    must(pthread_setspecific(late_key, value) == 0);
    return NULL;
}

static void first_use_in_destructor(void *unused)
{
    (void)unused;
    pthread_t thread;
    must(pthread_create(&thread, NULL, set_given, hf_malloc(64)) == 0);
    must(pthread_join(thread, NULL) == 0);
}

START_TEST(first_use_is_in_a_destructor)
{
    ck_assert_int_eq(pthread_key_create(&late_key, destroy_foreign), 0);
    assert_no_growth(first_use_in_destructor, NULL, 20, 200, 256 << 10);
}
END_TEST

/* hf_stats() counts under the locks that ends of threads take. */
static void destroy_with_statistics(void *value)
{
    struct hf_stats stats = {.size = sizeof stats};
    struct hf_owner owner = {.size = sizeof owner};
    must(hf_stats(&stats) == 0 && stats.allocated > 0);
    must(hf_owner_of(value, &owner) == 0 && owner.kind == HF_OWNER_HEAP);
    must(hf_usable_size(value) >= 64);
    static _Thread_local int round;
    if (++round < PTHREAD_DESTRUCTOR_ITERATIONS)
        must(pthread_setspecific(late_key, value) == 0);
    else
        hf_free(value);
}

static void *allocate_and_set(void *unused)
{
    (void)unused;
    void *value = hf_malloc(64);
    must(value != NULL);
    must(pthread_setspecific(late_key, value) == 0);
    return NULL;
}

START_TEST(statistics_in_a_destructor)
{
    void *(*body)(void *) = allocate_and_set;
    ck_assert_int_eq(pthread_key_create(&late_key, destroy_with_statistics), 0);
    assert_no_growth(run_thread, &body, 20, 200, 256 << 10);
}
END_TEST

int main(void)
{
    return RUN_SUITE(many_keys_in_every_round, one_key_in_every_round, many_threads_at_once,
                     first_use_is_in_a_destructor, statistics_in_a_destructor);
}
