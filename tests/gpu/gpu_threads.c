/*
 * Several threads, each with a stream, which also free each other's blocks. Each block has a
 * pattern from its allocation until it is freed. The exchange is an array of slots, each of which
 * is swapped atomically.
 */
#include "gpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { THREADS = 8, STEPS = 600, SLOTS = 64, HEAD = 64 };

/* A pinned block begins with this, and its device block has the same seed everywhere. */
struct pair {
    struct pair *self;
    void *device;
    size_t size;
    cudaStream_t stream; /* the device block's */
    unsigned seed;
};
_Static_assert(sizeof(struct pair) <= HEAD, "the pattern comes behind");

static _Atomic(struct pair *) slots[SLOTS];

static struct pair *make(cudaStream_t stream, unsigned seed)
{
    size_t size = HEAD + ((size_t)256 << seed % 13) + seed % 1000;
    struct pair *pair = gpu_take(HF_SPACE_PINNED, size, NULL);
    *pair = (struct pair){pair, gpu_take(HF_SPACE_DEVICE, size, stream), size, stream, seed};
    gpu_pattern((char *)pair + HEAD, size - HEAD, seed);
    gpu_cuda(cudaMemcpyAsync(pair->device, pair, size, cudaMemcpyHostToDevice, stream));
    return pair;
}

/* Copies back on another stream, once the owner's work is done, compares, and frees both. */
static void end(struct pair *pair, cudaStream_t stream)
{
    gpu_check(pair->self == pair);
    gpu_equal(hf_space_order(0, pair->stream, stream), 0);
    gpu_equal(hf_space_use(pair->device, stream), 0);
    char *back = gpu_take(HF_SPACE_PINNED, pair->size, NULL);
    gpu_cuda(cudaMemcpyAsync(back, pair->device, pair->size, cudaMemcpyDeviceToHost, stream));
    gpu_cuda(cudaStreamSynchronize(stream));
    gpu_check(gpu_has_pattern((char *)pair + HEAD, pair->size - HEAD, pair->seed));
    gpu_check(gpu_has_pattern(back + HEAD, pair->size - HEAD, pair->seed));
    gpu_give(pair->device, pair->stream);
    gpu_give(back, HF_STREAM_DONE);
    gpu_give(pair, stream);
}

/* Streams live as long as blocks that were allocated for them. */
static cudaStream_t streams[THREADS];

static void *work(void *argument)
{
    unsigned thread = (unsigned)(uintptr_t)argument, random = thread * 7919 + 1;
    for (unsigned i = 0; i < STEPS; i++) {
        random = random * 1664525 + 1013904223;
        struct pair *made = make(streams[thread], random >> 8);
        struct pair *other = atomic_exchange(&slots[(random >> 16) % SLOTS], made);
        if (other != NULL)
            end(other, streams[thread]);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t each[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        streams[i] = gpu_stream();
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < THREADS; i++)
            gpu_equal(pthread_create(&each[i], NULL, work, (void *)(uintptr_t)i), 0);
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(each[i], NULL);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        struct pair *left = atomic_exchange(&slots[i], NULL);
        if (left != NULL)
            end(left, streams[0]);
    }
    gpu_cuda(cudaDeviceSynchronize());
    gpu_equal(gpu_stats(HF_SPACE_PINNED).leaked, 0);
    gpu_equal(gpu_stats(HF_SPACE_DEVICE).leaked, 0);
}

/* Many threads come and go; none leaves memory behind. */
static void *brief(void *argument)
{
    for (unsigned i = 0; i < 20; i++) {
        gpu_give(gpu_take(HF_SPACE_PINNED, 1000 + i * 500, NULL), HF_STREAM_DONE);
        gpu_give(gpu_take(HF_SPACE_DEVICE, 1000 + i * 500, NULL), NULL);
    }
    return argument;
}

static void threads_that_end(void)
{
    uint64_t after_some = 0;
    for (unsigned i = 0; i < 200; i++) {
        pthread_t thread;
        gpu_equal(pthread_create(&thread, NULL, brief, NULL), 0);
        pthread_join(thread, NULL);
        uint64_t reserved =
            gpu_stats(HF_SPACE_PINNED).reserved + gpu_stats(HF_SPACE_DEVICE).reserved;
        if (i == 50)
            after_some = reserved;
        gpu_check(i <= 50 || reserved <= after_some + 8 * GPU_MIB);
    }
}

const struct gpu_case gpu_threads[] = {
    {"threads that free each other's blocks", threads, false},
    {"threads that end", threads_that_end, false},
    {NULL, NULL, false},
};
