/*
 * What is waited for: streams of contexts that the user made, before memory is unmapped; and, where
 * several threads need what a device still uses, all of them get it.
 */
#include "api.h"
#include "control.h"
#include "death.h"
#include "suite.h"

#include <homefree/homefree.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { THREADS = 3, TURNS = 300 };

static atomic_int ran;

static void count(void *unused)
{
    (void)unused;
    atomic_fetch_add(&ran, 1);
}

static uint64_t reserved(void)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, 0, HF_STREAM_ANY, &stats), 0);
    return stats.reserved;
}

/* The device's own context has nothing to do, so to wait for that is not enough. */
START_TEST(a_context_of_the_users)
{
    CUcontext context, popped;
    CUstream stream;
    void *at = NULL, *first = NULL;
    const size_t size = 3 << 20;
    ck_assert_int_eq(hf_space_alloc(&first, HF_SPACE_DEVICE, 0, 100, 0, NULL), 0);
    ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), 0);
    ck_assert_int_eq(cuStreamCreate(&stream, cudaStreamNonBlocking), 0);
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, size, 0, stream), 0);
    ck_assert_int_eq(cudaMemsetAsync(at, 1, size, stream), 0);
    ck_assert_int_eq(double_enqueue(stream, count, NULL), 0);
    ck_assert_int_eq(hf_space_free(at, stream), 0);
    ck_assert_int_eq(cuCtxPopCurrent_v2(&popped), 0);
    uint64_t before = reserved();
    ck_assert_int_eq(hf_space_trim(HF_SPACE_DEVICE, 0, 0, NULL), 0);
    ck_assert_int_eq(ran, 1);
    ck_assert_uint_lt(reserved(), before);
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

/* Three blocks have room. Each is given back before the device is done with it, so that all wait
 * all the time, and one who waits has taken the others' blocks off the list. */
static void *need_capacity(void *context)
{
    static const size_t size = 20 << 20;
    void *stream = context;
    for (int i = 0; i < TURNS; i++) {
        void *at = NULL;
        must(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, size, 0, stream) == 0);
        must(cudaMemsetAsync(at, i, size, stream) == 0);
        must(hf_space_free(at, HF_STREAM_ANY) == 0);
    }
    return NULL;
}

START_TEST(several_who_wait)
{
    pthread_t threads[THREADS];
    double_memory(0, (size_t)64 << 20);
    for (int i = 0; i < THREADS; i++) {
        cudaStream_t stream;
        ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, need_capacity, stream), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(a_context_of_the_users, several_who_wait);
}
