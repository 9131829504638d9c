/* free() preserves errno: callers free on their way out of a failure and inspect errno
 * afterwards. */
#include "death.h"
#include "errno_kept.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The heap starts in this call: constructors come later. */
static int after_first;
static void free_before_constructors(void)
{
    void *block = strdup("libc's");
    errno = EBADF;
    hf_free(block);
    after_first = errno;
}
static void (*const early)(void)
    __attribute__((section(".preinit_array"), used)) = free_before_constructors;

START_TEST(of_the_processs_first_call)
{
    ck_assert_int_eq(after_first, EBADF);
}
END_TEST

START_TEST(of_the_heaps_blocks)
{
    MUST_KEEP_ERRNO(hf_free(NULL));
    MUST_KEEP_ERRNO(hf_free(hf_malloc(10)));
    MUST_KEEP_ERRNO(hf_free(hf_malloc(20000)));
    MUST_KEEP_ERRNO(hf_free(hf_malloc(64 << 20)));
    MUST_KEEP_ERRNO(hf_free(hf_aligned_alloc(1 << 20, 100)));
    MUST_KEEP_ERRNO(hf_free_sized(hf_malloc(100), 100));
    MUST_KEEP_ERRNO(hf_free_aligned_sized(hf_aligned_alloc(64, 100), 64, 100));
}
END_TEST

START_TEST(when_caches_overflow)
{
    static void *blocks[5000];
    for (size_t i = 0; i < 5000; i++)
        blocks[i] = hf_malloc(i % 3000);
    for (size_t i = 0; i < 5000; i++)
        MUST_KEEP_ERRNO(hf_free(blocks[i]));
}
END_TEST

START_TEST(of_foreign_blocks)
{
    MUST_KEEP_ERRNO(hf_free(malloc(10)));
    MUST_KEEP_ERRNO(hf_free(strdup("libc's")));
    MUST_KEEP_ERRNO(hf_free(malloc(64 << 20))); /* libc unmaps this block */
}
END_TEST

static void *free_first(void *p)
{
    MUST_KEEP_ERRNO(hf_free(p));
    return NULL;
}

START_TEST(in_a_thread_whose_first_call_it_is)
{
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, free_first, hf_malloc(100)), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
}
END_TEST

int main(void)
{
    return RUN_SUITE(of_the_processs_first_call, of_the_heaps_blocks, when_caches_overflow,
                     of_foreign_blocks, in_a_thread_whose_first_call_it_is);
}
