/*
 * Forks that last longer than others wait for them: what is allocated and freed meanwhile is
 * neither refused nor lost, and is page-locked or mapped.
 */
#include "control.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, FORKS = 5, LASTS = 300 /* milliseconds */, SIZES = 4 };

static atomic_bool armed, over;

/* Registered before libhomefree's handler, so that it runs while the heap's gate is closed. */
static void last(void)
{
    if (atomic_load(&armed))
        (void)nanosleep(&(struct timespec){.tv_nsec = LASTS * 1000000L}, NULL);
}

static void register_first(void)
{
    (void)pthread_atfork(last, NULL, NULL);
}
static void (*const early)(void) __attribute__((section(".preinit_array"), used)) = register_first;

static void *take_and_give(void *context)
{
    static const size_t sizes[SIZES] = {100, 20000, 100000, 5 << 20};
    void *own = context;
    for (unsigned i = 0; !atomic_load(&over); i++) {
        enum hf_space_kind kind = i % 2 ? HF_SPACE_PINNED : HF_SPACE_DEVICE;
        void *blocks[SIZES];
        for (int j = 0; j < SIZES; j++) {
            must(hf_space_alloc(&blocks[j], kind, 0, sizes[j], 0, own) == 0);
            if (kind == HF_SPACE_PINNED)
                memset(blocks[j], 1, sizes[j]);
            else
                must(double_write(blocks[j], "x", 1) == 0);
        }
        for (int j = 0; j < SIZES; j++)
            must(hf_space_free(blocks[j], i % 3 ? HF_STREAM_DONE : own) == 0);
    }
    return NULL;
}

START_TEST(forks_that_last)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) /* the default stream, and that of the thread */
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, (void *)(i == 0 ? i : 2)),
                         0);
    atomic_store(&armed, true);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            _exit(0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (enum hf_space_kind kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++) {
        struct hf_space_stats stats = {.size = sizeof stats};
        ck_assert_int_eq(hf_space_trim(kind, 0, 0, NULL), 0);
        ck_assert_int_eq(hf_space_stats(kind, 0, HF_STREAM_ANY, &stats), 0);
        ck_assert_uint_eq(stats.allocated, 0);
        ck_assert_uint_eq(stats.pending + stats.leaked, 0);
        ck_assert_uint_eq(stats.reserved, 0);
    }
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(forks_that_last);
}
