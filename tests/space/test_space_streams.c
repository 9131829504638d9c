/*
 * Programs that make and destroy streams without end: a stream's place is given to another when
 * nothing that was allocated for it is live, and its memory is used again, but not before the work
 * that may still use it is done.
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
#include <stdint.h>

enum { STREAMS_MOST = 256, MANY = 10000, LARGE = 3 << 20, WINDOW = 120, THREADS = 4, TURNS = 2500 };

static void *make_stream(void)
{
    cudaStream_t stream;
    ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    return stream;
}

static void *take(size_t size, void *stream)
{
    void *at = NULL;
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, size, 0, stream), 0);
    return at;
}

static struct hf_space_stats stats_of_device(void)
{
    struct hf_space_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, 0, HF_STREAM_ANY, &stats), 0);
    return stats;
}

START_TEST(many_in_turn)
{
    const uint64_t memory = (uint64_t)64 << 20;
    double_memory(0, memory);
    for (int i = 0; i < MANY; i++) {
        void *stream = make_stream();
        void *small = take(1000, stream), *large = take(LARGE, stream);
        ck_assert_int_eq(hf_space_free(small, stream), 0);
        ck_assert_int_eq(hf_space_free(large, stream), 0);
        ck_assert_int_eq(cudaStreamDestroy(stream), 0);
    }
    struct hf_space_stats stats = stats_of_device();
    ck_assert_uint_eq(stats.pending + stats.leaked, 0);
    ck_assert_uint_le(stats.reserved_peak, memory);
    ck_assert_uint_le(stats.streams, STREAMS_MOST);
    /* An arena's memory is used as it is. */
    ck_assert_uint_lt(double_calls("cuMemCreate"), MANY / 10);
    ck_assert_uint_le(double_calls("cuCtxSynchronize"), MANY + 10);
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

/* ---- work that is not done ---- */

static struct use {
    char *at;
    void *stream;
    bool done;
} uses[MANY];

static void work(void *use)
{
    ((struct use *)use)->done = true;
}

/* None of the streams' work is waited for before they are destroyed, later than others begin. */
START_TEST(what_work_still_uses_is_not_handed_out)
{
    void *streams[WINDOW] = {NULL};
    enum { COUNT = 2000 };
    for (int i = 0; i < COUNT; i++) {
        void **stream = &streams[i % WINDOW];
        if (*stream != NULL)
            ck_assert_int_eq(cudaStreamDestroy(*stream), 0);
        *stream = make_stream();
        struct use *use = &uses[i];
        *use = (struct use){.at = take(LARGE, *stream), .stream = *stream};
        for (int j = 0; j < i; j++)
            if (use->at < uses[j].at + LARGE && uses[j].at < use->at + LARGE)
                ck_assert(uses[j].done);
        ck_assert_int_eq(double_enqueue(*stream, work, use), 0);
        ck_assert_int_eq(hf_space_free(use->at, *stream), 0);
    }
    ck_assert_int_eq(cudaDeviceSynchronize(), 0);
    ck_assert_uint_eq(double_faults(), 0);
}
END_TEST

/* ---- many at once ---- */

START_TEST(as_many_as_there_can_be)
{
    void *streams[STREAMS_MOST], *blocks[STREAMS_MOST], *one_more = make_stream(), *at;
    for (int i = 0; i < STREAMS_MOST; i++) {
        streams[i] = make_stream();
        blocks[i] = take(i % 2 ? 100 : 1 << 20, streams[i]);
    }
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 100, 0, one_more), -EAGAIN);
    for (int i = 0; i < STREAMS_MOST; i++) {
        struct hf_space space = {.size = sizeof space};
        ck_assert_int_eq(hf_space_of(blocks[i], &space), 0);
        ck_assert_ptr_eq(space.stream, streams[i]);
    }
    ck_assert_uint_eq(stats_of_device().streams, STREAMS_MOST);
    /* A place that nothing is live in, although its stream is there. */
    ck_assert_int_eq(hf_space_free(blocks[100], streams[100]), 0);
    at = take(100, one_more);
    struct hf_space_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, 0, streams[100], &stats), -ENOENT);
    ck_assert_int_eq(hf_space_stats(HF_SPACE_DEVICE, 0, one_more, &stats), 0);
    ck_assert_int_eq(hf_space_free(at, one_more), 0);
    blocks[100] = take(100, streams[100]);
    for (int i = 0; i < STREAMS_MOST; i++)
        ck_assert_int_eq(hf_space_free(blocks[i], streams[i]), 0);
    stats = stats_of_device();
    ck_assert_uint_eq(stats.pending + stats.leaked, 0);
}
END_TEST

/* It has the fast paths, which do not look at its place. */
START_TEST(the_first_stream_keeps_its_place)
{
    struct hf_space space = {.size = sizeof space};
    void *first = make_stream(), *at = take(100, first);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(hf_space_free(at, first), 0);
        void *stream = make_stream();
        ck_assert_int_eq(hf_space_free(take(100, stream), stream), 0);
        at = take(100, first);
        ck_assert_int_eq(hf_space_of(at, &space), 0);
        ck_assert_ptr_eq(space.stream, first);
    }
}
END_TEST

/* Each stream gets half of the device, one after the other, and keeps a small block. */
START_TEST(large_blocks_for_all_of_them)
{
    const size_t memory = (size_t)1 << 30;
    double_memory(0, memory);
    for (int i = 0; i < STREAMS_MOST - 1; i++) {
        void *stream = make_stream();
        (void)take(100000, stream);
        void *at = take(memory / 16, stream);
        ck_assert_int_eq(hf_space_free(at, stream), 0);
    }
    void *last = make_stream();
    ck_assert_int_eq(hf_space_free(take(memory / 4, last), last), 0);
}
END_TEST

/* A capture forbids waiting; there are too many streams then. */
START_TEST(a_capture_is_not_invalidated)
{
    void *streams[STREAMS_MOST], *at;
    cudaGraph_t graph;
    cudaStream_t captured;
    ck_assert_int_eq(cudaStreamCreate(&captured), 0);
    for (int i = 0; i < STREAMS_MOST; i++) {
        streams[i] = make_stream();
        at = take(100000, streams[i]);
        if (i != 0 && i != 7)
            ck_assert_int_eq(hf_space_use(at, NULL), 0); /* so that it pends */
        ck_assert_int_eq(double_enqueue(NULL, work, &uses[0]), 0);
        ck_assert_int_eq(hf_space_free(at, streams[i]), 0);
    }
    ck_assert_int_eq(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), 0);
    int error = hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 100, 0, captured);
    ck_assert(error == 0 || error == -EAGAIN);
    ck_assert_int_eq(cudaStreamEndCapture(captured, &graph), 0);
    ck_assert_int_eq(cudaGraphDestroy(graph), 0);
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 100, 0, captured), 0);
    /* What waits has events, which a search for leaks does not see. */
    double_advance(100);
    ck_assert_int_eq(hf_space_trim(HF_SPACE_DEVICE, 0, 0, NULL), 0);
}
END_TEST

/* Memory is there, but only after waiting. */
START_TEST(nobody_waits_for_a_captured_stream)
{
    double_memory(0, (size_t)64 << 20);
    void *other = make_stream(), *captured = make_stream(), *at = NULL;
    cudaGraph_t graph;
    (void)take(100, captured);
    (void)take(100, other);
    ck_assert_int_eq(hf_space_free(take(40 << 20, other), other), 0);
    ck_assert_int_eq(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal), 0);
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 10 << 20, 0, captured), 0);
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 40 << 20, 0, captured), -EBUSY);
    ck_assert_int_eq(cudaStreamEndCapture(captured, &graph), 0);
    ck_assert_int_eq(cudaGraphDestroy(graph), 0);
    ck_assert_int_eq(hf_space_alloc(&at, HF_SPACE_DEVICE, 0, 40 << 20, 0, captured), 0);
}
END_TEST

/* ---- other streams of a block ---- */

START_TEST(records_of_many_blocks)
{
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    void *streams[] = {make_stream(), make_stream(), make_stream()};
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = take(256, NULL);
        for (int j = 0; j <= i % 3; j++)
            ck_assert_int_eq(hf_space_use(blocks[i], streams[(i + j) % 3]), 0);
    }
    ck_assert_int_eq(double_enqueue(streams[0], work, &uses[0]), 0);
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_int_eq(hf_space_free(blocks[i], NULL), 0);
    ck_assert_uint_eq(stats_of_device().pending, (uint64_t)BLOCKS * 256);
    /* Without a record there is nothing to wait for. */
    ck_assert_int_eq(hf_space_free(take(256, NULL), NULL), 0);
    ck_assert_uint_eq(stats_of_device().pending, (uint64_t)BLOCKS * 256);
    ck_assert_int_eq(hf_space_trim(HF_SPACE_DEVICE, 0, 0, NULL), 0);
    ck_assert_uint_eq(stats_of_device().pending, 0);
    ck_assert_uint_eq(stats_of_device().reserved, 0);
}
END_TEST

/* ---- threads ---- */

static _Atomic int failed;

/* A live block's place is its own stream's. */
static void *use_streams(void *context)
{
    enum { OWN = 90 };
    cudaStream_t streams[OWN];
    void *blocks[OWN] = {NULL};
    uint64_t state = (uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < OWN; i++)
        must(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking) == 0);
    for (int i = 0; i < TURNS; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        int which = (int)(state >> 33) % OWN;
        if (blocks[which] != NULL) {
            struct hf_space space = {.size = sizeof space};
            must(hf_space_of(blocks[which], &space) == 0 && space.block == blocks[which]);
            must(space.stream == streams[which]);
            must(hf_space_free(blocks[which], streams[which]) == 0);
            blocks[which] = NULL;
            continue;
        }
        static const size_t sizes[] = {100, 20000, 100000};
        int error = hf_space_alloc(&blocks[which], HF_SPACE_DEVICE, 0, sizes[(state >> 20) % 3], 0,
                                   streams[which]);
        must(error == 0 || error == -EAGAIN);
        if (error != 0)
            atomic_fetch_add(&failed, 1);
        /* Few at a time, so that most places are nobody's or may become so. */
        for (int j = 0; j < OWN; j++)
            if (blocks[j] != NULL && j != which && (j + i) % 8 == 0) {
                must(hf_space_free(blocks[j], streams[j]) == 0);
                blocks[j] = NULL;
            }
    }
    for (int j = 0; j < OWN; j++)
        must(hf_space_free(blocks[j], streams[j]) == 0);
    return NULL;
}

START_TEST(threads_take_each_others_places)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_streams, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(failed, 0);
    /* A free may miss its stream while places change, and wait. */
    ck_assert_int_eq(hf_space_trim(HF_SPACE_DEVICE, 0, 0, NULL), 0);
    struct hf_space_stats stats = stats_of_device();
    ck_assert_uint_eq(stats.pending + stats.leaked + stats.reserved + stats.allocated, 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(many_in_turn, what_work_still_uses_is_not_handed_out, as_many_as_there_can_be,
                     the_first_stream_keeps_its_place, large_blocks_for_all_of_them,
                     a_capture_is_not_invalidated, nobody_waits_for_a_captured_stream,
                     records_of_many_blocks, threads_take_each_others_places);
}
