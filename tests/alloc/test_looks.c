/* A thread looks every now and then whether its caches hold what nobody needs: whatever it calls,
 * not in each call, and also if all of its calls take the fast paths. Looking asks for the time,
 * which the heap does for nothing else. */
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 5000, ROUNDS = 20 };
static void *blocks[BLOCKS];
static __thread unsigned looks;

/* In place of libc's, for the heap as well: it leaves definitions alone that a sanitizer has made,
 * and knows one by this name. */
__attribute__((visibility("default"))) void __sanitizer_print_stack_trace(void);
void __sanitizer_print_stack_trace(void)
{
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    looks += clock == CLOCK_MONOTONIC_COARSE;
    return (int)syscall(SYS_clock_gettime, clock, now);
}

static void use_malloc(size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++)
        hf_free(hf_malloc(size));
}

static void use_aligned_alloc(size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++)
        hf_free(hf_aligned_alloc(64, size));
}

static void take_all(size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = hf_malloc(size);
}

static void *free_all(void *unused)
{
    (void)unused;
    looks = 0;
    for (size_t i = 0; i < BLOCKS; i++)
        hf_free(blocks[i]);
    return (void *)(uintptr_t)looks;
}

static void assert_looks(void (*use)(size_t size), size_t size)
{
    use(size);
    looks = 0;
    for (int round = 0; round < ROUNDS; round++)
        use(size);
    ck_assert_uint_ge(looks, BLOCKS * ROUNDS / 2000);
    ck_assert_uint_le(looks, BLOCKS * ROUNDS / 100);
}

START_TEST(threads_that_take_and_free_look)
{
    static const size_t sizes[] = {64, 1000, 5000, 16000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_looks(use_malloc, sizes[i]);
    assert_looks(use_aligned_alloc, 1024);
}
END_TEST

START_TEST(threads_that_only_take_look)
{
    looks = 0;
    take_all(16000);
    ck_assert_uint_ge(looks, BLOCKS / 1100);
    free_all(NULL);
}
END_TEST

START_TEST(threads_that_only_free_look)
{
    static const size_t sizes[] = {1000, 16000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pthread_t thread;
        void *counted;
        take_all(sizes[i]);
        must(pthread_create(&thread, NULL, free_all, NULL) == 0);
        must(pthread_join(thread, &counted) == 0);
        ck_assert_uint_ge((uintptr_t)counted, BLOCKS * sizes[i] / (2 << 20));
    }
}
END_TEST

int main(void)
{
    return RUN_SUITE(threads_that_take_and_free_look, threads_that_only_take_look,
                     threads_that_only_free_look);
}
