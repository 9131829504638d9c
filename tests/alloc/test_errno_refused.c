/* free() preserves errno also when the system refuses to take pages back, as it does at the limit
 * of mappings or in a sandbox. */
#include "death.h"
#include "errno_kept.h"
#include "refuse.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* From here on this process gets no pages, and can give none back. */
static void refuse_pages(void)
{
    static const unsigned calls[] = {SYS_madvise, SYS_munmap,   SYS_mmap,
                                     SYS_mremap,  SYS_mprotect, 0};
    refuse(calls);
    must(madvise(NULL, 4096, MADV_DONTNEED) != 0 && errno == ENOMEM);
}

enum { BLOCKS = 2000 };
static void *blocks[BLOCKS];

static void *do_nothing(void *ignored)
{
    return ignored;
}

static void *free_half(void *ignored)
{
    for (size_t i = 0; i < BLOCKS; i += 2)
        MUST_KEEP_ERRNO(hf_free(blocks[i]));
    return ignored;
}

/* Larger than what the heap keeps for later (256 MiB): its pages would go back at once. */
START_TEST(of_pages_that_go_back_at_once)
{
    void *large = hf_malloc((size_t)300 << 20);
    void *libcs = malloc((size_t)64 << 20); /* libc would unmap this block */
    must(large != NULL && libcs != NULL);
    refuse_pages();
    MUST_KEEP_ERRNO(hf_free(large));
    MUST_KEEP_ERRNO(hf_free(libcs));
}
END_TEST

START_TEST(in_threads_that_get_no_memory)
{
    pthread_t thread;
    /* Its stack is kept by libc for the next one. */
    ck_assert_int_eq(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = hf_malloc(i * 97 % 100000);
    refuse_pages();
    ck_assert_int_eq(pthread_create(&thread, NULL, free_half, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (size_t i = 1; i < BLOCKS; i += 2)
        MUST_KEEP_ERRNO(hf_free(blocks[i]));
}
END_TEST

/* So many small blocks that what they leave goes back while they are freed. */
START_TEST(while_a_program_leaves_its_memory)
{
    enum { SIZE = 100, COUNT = (40 << 20) / SIZE };
    static void *small[COUNT];
    const struct timespec windows = {.tv_nsec =
                                         300000000}; /* the heap's, of 20 ms each, must end */
    for (size_t i = 0; i < COUNT; i++)
        must((small[i] = hf_malloc(SIZE)) != NULL);
    must(nanosleep(&windows, NULL) == 0);
    refuse_pages();
    for (size_t i = 0; i < COUNT; i++)
        MUST_KEEP_ERRNO(hf_free(small[i]));
}
END_TEST

int main(void)
{
    return RUN_SUITE(of_pages_that_go_back_at_once, in_threads_that_get_no_memory,
                     while_a_program_leaves_its_memory);
}
