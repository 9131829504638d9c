/*
 * What glibc's malloc keeps free below one live block goes back once the heap has grown, or, if
 * there is homefree's thread, the process (alloc/owner/libc_spare.h). What is used in turns stays.
 */
#include "process.h"
#include "suite.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <homefree/pressure.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
enum { BUFFER = 64 << 10, COUNT = 2048 }; /* 128 MiB */

static size_t resident(void)
{
    char text[128], *rest;
    FILE *statm = fopen("/proc/self/statm", "re");
    ck_assert(statm != NULL && fgets(text, sizeof text, statm) != NULL && fclose(statm) == 0);
    (void)strtoul(text, &rest, 10);
    return strtoul(rest, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void *touched(void *block, size_t size)
{
    ck_assert_ptr_nonnull(block);
    return memset(block, 1, size);
}

static void *buffers[COUNT];
static void use_buffers(void)
{
    for (size_t i = 0; i < COUNT; i++)
        buffers[i] = touched(malloc(BUFFER), BUFFER);
}

static void free_buffers(void)
{
    for (size_t i = 0; i < COUNT; i++)
        free(buffers[i]);
}

/* Returns the block that lies at the end. */
static void *strand(void)
{
    const size_t from = resident();
    use_buffers();
    void *top = touched(malloc(BUFFER), BUFFER);
    free_buffers();
    ck_assert_uint_gt(resident(), from + 120 * MIB);
    return top;
}

START_TEST(it_goes_back_when_the_heap_grows)
{
    enum { GROWN = 256 };
    void *blocks[GROWN];
    const size_t from = resident();
    unsigned char *top = strand();
    for (size_t i = 0; i < GROWN; i++)
        blocks[i] = touched(hf_malloc(MIB), MIB);
    ck_assert_uint_lt(resident(), from + (GROWN + 40) * MIB);
    ck_assert(top[0] == 1 && top[BUFFER - 1] == 1);
    use_buffers();
    free_buffers();
    free(top);
    for (size_t i = 0; i < GROWN; i++)
        hf_free(blocks[i]);
}
END_TEST

static long faults(void)
{
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

static double seconds(void)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

START_TEST(it_stays_while_nothing_grows)
{
    enum { PAGES = COUNT * (BUFFER >> 12) };
    const int error = hf_background_start();
    ck_assert(error == 0 || error == -ENOTSUP); /* a build without it */
    hf_free(touched(hf_malloc(64 * MIB), 64 * MIB));
    void *top = strand();
    const long before = faults();
    const double until = seconds() + 3; /* the thread looks a few times */
    while (seconds() < until) {
        use_buffers();
        free_buffers();
        hf_free(touched(hf_malloc(MIB), MIB)); /* ticks */
    }
    ck_assert_int_lt(faults() - before, PAGES / 2);
    free(top);
}
END_TEST

START_TEST(the_thread_sees_others_grow)
{
    const int error = hf_background_start();
    if (error == -ENOTSUP) /* this build has no thread */
        return;
    ck_assert_int_eq(error, 0);
    const size_t from = resident();
    void *top = strand();
    const double until = seconds() + 20;
    size_t other = 0;
    /* A little at a time: the thread has its first look before the last. */
    while (resident() > from + other + 40 * MIB) {
        const struct timespec pause = {.tv_nsec = 50000000};
        ck_assert(seconds() < until);
        if (other < 256 * MIB) {
            void *pages =
                mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            ck_assert(pages != MAP_FAILED);
            (void)touched(pages, MIB);
            other += MIB;
        }
        (void)nanosleep(&pause, NULL);
    }
    free(top);
}
END_TEST

int main(void)
{
    need_found_objects();
    return RUN_SUITE(it_goes_back_when_the_heap_grows, it_stays_while_nothing_grows,
                     the_thread_sees_others_grow);
}
