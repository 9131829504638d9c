/* Marks in streams: they are done when the work before them is, in whatever context the stream is;
 * their events are used again, by many threads at a time. */
#include "api.h"
#include "control.h"
#include "seam.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static void work(void *unused)
{
    (void)unused;
}

static void *address(uintptr_t at)
{
    return (void *)at;
}

static void marks(void *unused)
{
    cudaStream_t stream;
    struct hf_cuda_event *first, *second;
    (void)unused;
    must(hf_cuda_find() == 0);
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == 0);
    must(double_enqueue(stream, work, NULL) == 0);
    must(hf_cuda_mark(0, stream, &first) == 0);
    must(double_enqueue(stream, work, NULL) == 0);
    must(hf_cuda_mark(0, stream, &second) == 0);
    must(hf_cuda_is_done(first) == -EAGAIN && reason_is_empty());
    double_advance(2);
    must(hf_cuda_is_done(first) == 0 && hf_cuda_is_done(second) == -EAGAIN);
    must(hf_cuda_wait(0) == 0);
    must(hf_cuda_is_done(second) == 0);
    hf_cuda_drop(first);
    hf_cuda_drop(second);
    hf_cuda_drop(NULL);
    must(cudaGetLastError() == 0);
}
CALL_TEST(marks_follow_the_work, marks, NULL)

static void order(void *unused)
{
    cudaStream_t first, second, there;
    cudaGraph_t graph;
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    must(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) == 0);
    must(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) == 0);
    must(double_enqueue(first, work, NULL) == 0);
    must(hf_cuda_order(0, first, second) == 0);
    must(double_enqueue(second, work, NULL) == 0);
    const size_t waiting = double_pending();
    double_advance_stream(second, 3);
    must(double_pending() == waiting);
    double_advance_stream(first, 3);
    double_advance_stream(second, 3);
    must(double_pending() == 0);
    must(double_leaks(&live) > 0 && live.events == 1);
    /* The default streams of each device; nothing for one stream. */
    must(hf_cuda_order(1, NULL, address(2)) == 0 && hf_cuda_order(0, address(2), NULL) == 0);
    const unsigned long calls = double_calls("cuStreamWaitEvent");
    must(hf_cuda_order(0, first, first) == 0 && double_calls("cuStreamWaitEvent") == calls);
    must(hf_cuda_order(0, address(0x1000), first) == -EINVAL);
    must(hf_cuda_order(0, first, address(0x1000)) == -EINVAL);
    must(hf_cuda_wait(-1) == 0);
    /* Across devices. */
    must(cudaSetDevice(1) == 0);
    must(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking) == 0);
    must(cudaSetDevice(0) == 0);
    must(double_enqueue(first, work, NULL) == 0);
    must(hf_cuda_order(0, first, there) == 0);
    const size_t elsewhere = double_pending();
    double_advance_stream(there, 3);
    must(double_pending() == elsewhere && hf_cuda_order(0, there, second) == 0);
    must(hf_cuda_wait(0) == 0 && hf_cuda_wait(1) == 0 && double_pending() == 0);
    /* A capture stays valid. */
    must(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal) == 0);
    must(hf_cuda_order(0, first, second) == -EBUSY);
    const unsigned long ordered = double_calls("cuStreamWaitEvent");
    must(hf_cuda_order(0, second, first) == -EBUSY);
    must(double_calls("cuStreamWaitEvent") == ordered);
    must(cudaStreamEndCapture(first, &graph) == 0);
    must(cudaGraphDestroy(graph) == 0);
    must(hf_cuda_order(0, second, first) == 0);
    must(cudaGetLastError() == 0);
}
CALL_TEST(one_stream_waits_for_another, order, NULL)

static void defaults(void *unused)
{
    struct hf_cuda_event *event;
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    for (int device = 0; device < 2; device++)
        for (uintptr_t stream = 0; stream < 3; stream++) {
            must(hf_cuda_mark(device, address(stream), &event) == 0);
            must(hf_cuda_is_done(event) == -EAGAIN);
            must(hf_cuda_wait(1 - device) == 0);
            must(hf_cuda_is_done(event) == -EAGAIN);
            must(hf_cuda_wait(device) == 0);
            must(hf_cuda_is_done(event) == 0);
            hf_cuda_drop(event);
        }
    must(double_leaks(&live) == 2 && live.events == 2); /* one of each device is used again */
    must(hf_cuda_mark(2, NULL, &event) == -EINVAL);
    must(hf_cuda_mark(-1, NULL, &event) == -EINVAL);
}
CALL_TEST(default_streams_of_each_device, defaults, NULL)

/* device: is a guess. */
static void wrong_device(void *unused)
{
    cudaStream_t stream;
    struct hf_cuda_event *event;
    (void)unused;
    must(hf_cuda_find() == 0);
    must(cudaSetDevice(1) == 0 && cudaStreamCreate(&stream) == 0);
    must(hf_cuda_mark(0, stream, &event) == 0);
    must(hf_cuda_is_done(event) == -EAGAIN);
    must(cudaStreamSynchronize(stream) == 0);
    must(hf_cuda_is_done(event) == 0);
    hf_cuda_drop(event);
    /* While it is being captured, whoever is asked about that. */
    cudaGraph_t graph;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == 0);
    must(hf_cuda_mark(0, stream, &event) == -EBUSY);
    double_fail("cudaStreamIsCapturing", 1, 400);
    must(hf_cuda_mark(0, stream, &event) == -EBUSY);
    must(cudaStreamEndCapture(stream, &graph) == 0 && cudaGraphDestroy(graph) == 0);
}
CALL_TEST(a_stream_of_another_device, wrong_device, NULL)

static void own_context(void *unused)
{
    CUcontext context;
    CUstream stream;
    struct hf_cuda_event *event, *ended;
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    must(cuCtxCreate_v2(&context, 0, 0) == 0);
    must(cuStreamCreate(&stream, 0) == 0);
    must(hf_cuda_mark(0, stream, &event) == 0 && hf_cuda_mark(0, stream, &ended) == 0);
    must(hf_cuda_is_done(event) == -EAGAIN);
    must(cuStreamSynchronize(stream) == 0);
    must(hf_cuda_is_done(event) == 0);
    double_fail("cuCtxPushCurrent", 1, 709);
    must(hf_cuda_is_done(event) == -EINVAL);
    must(hf_cuda_is_done(event) == 0);
    hf_cuda_drop(event);
    (void)double_leaks(&live);
    must(live.events == 2); /* the tried one of the device's, and `ended` */
    must(cuCtxDestroy_v2(context) == 0);
    /* Its end is not the end of all. */
    must(hf_cuda_is_done(ended) == -EINVAL);
    hf_cuda_drop(ended);
    must(hf_cuda_mark(0, stream, &event) == -EINVAL);
    must(hf_cuda_mark(0, NULL, &event) == 0);
    hf_cuda_drop(event);
    (void)double_leaks(&live);
    must(live.events == 1);
}
CALL_TEST(a_stream_of_the_users_context, own_context, NULL)

static void destroyed(void *unused)
{
    cudaStream_t stream;
    struct hf_cuda_event *event = NULL;
    (void)unused;
    must(hf_cuda_find() == 0);
    must(cudaStreamCreate(&stream) == 0 && cudaStreamDestroy(stream) == 0);
    errno = EBADF;
    must(hf_cuda_mark(0, stream, &event) == -EINVAL && event == NULL);
    must(errno == EBADF);
    must(reason_has("CUDA_ERROR_INVALID_HANDLE (400)"));
}
CALL_TEST(a_stream_that_is_destroyed, destroyed, NULL)

static void failures(void *unused)
{
    struct hf_cuda_event *event = NULL;
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    double_fail("cudaEventCreateWithFlags", 1, 2);
    must(hf_cuda_mark(0, NULL, &event) == -ENOMEM && event == NULL);
    must(reason_has("cuEventCreate"));
    double_fail("cudaStreamIsCapturing", 1, 999);
    must(hf_cuda_mark(0, NULL, &event) == -EIO && reason_has("cuStreamIsCapturing"));
    double_fail("cudaEventRecord", 1, 999);
    must(hf_cuda_mark(0, NULL, &event) == -EIO && reason_has("cuEventRecord") && event == NULL);
    must(hf_cuda_mark(0, NULL, &event) == 0);
    double_fail("cudaEventQuery", 1, 719);
    must(hf_cuda_is_done(event) == -EIO && reason_has("cuEventQuery"));
    must(hf_cuda_is_done(event) == -EAGAIN);
    hf_cuda_drop(event);
    (void)double_leaks(&live);
    must(live.events == 1);
}
CALL_TEST(failures_lose_no_event, failures, NULL)

static void many(void *unused)
{
    enum { MANY = 1000, KEPT = 256 };
    static struct hf_cuda_event *events[MANY];
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    for (int i = 0; i < MANY; i++)
        must(hf_cuda_mark(0, NULL, &events[i]) == 0);
    for (int i = 0; i < MANY; i++)
        hf_cuda_drop(events[i]);
    (void)double_leaks(&live);
    must(live.events == KEPT);
}
CALL_TEST(the_pool_has_an_end, many, NULL)

enum { THREADS = 8, ROUNDS = 500 };
static atomic_int ready;

/* Each event is one thread's alone, until it is dropped: it is done when that thread's stream is.
 */
static void *use_events(void *argument)
{
    const int device = (int)((size_t)argument % 2);
    struct hf_cuda_event *event[4];
    cudaStream_t stream;
    must(cudaSetDevice(device) == 0);
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == 0);
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS)
        sched_yield();
    for (int round = 0; round < times(ROUNDS); round++) {
        for (int i = 0; i < 4; i++) {
            must(double_enqueue(stream, work, NULL) == 0);
            must(hf_cuda_mark(device, stream, &event[i]) == 0);
        }
        for (int i = 0; i < 4; i++)
            must(hf_cuda_is_done(event[i]) == -EAGAIN);
        must(cudaStreamSynchronize(stream) == 0);
        for (int i = 0; i < 4; i++) {
            must(hf_cuda_is_done(event[i]) == 0);
            hf_cuda_drop(event[i]);
        }
    }
    return NULL;
}

static void threads(void *unused)
{
    pthread_t thread[THREADS];
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&thread[i], NULL, use_events, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(thread[i], NULL) == 0);
    (void)double_leaks(&live);
    must(live.events <= THREADS * 4);
}
CALL_TEST(many_threads, threads, NULL)

/* No event is two threads' at a time. */
static _Atomic(struct hf_cuda_event *) held[THREADS];

static void *take_events(void *argument)
{
    const size_t own = (size_t)argument;
    struct hf_cuda_event *event;
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS)
        sched_yield();
    for (int round = 0; round < times(4 * ROUNDS); round++) {
        must(hf_cuda_mark(0, NULL, &event) == 0);
        atomic_store(&held[own], event);
        for (size_t i = 0; i < THREADS; i++)
            must(i == own || atomic_load(&held[i]) != event);
        must(own != 0 || hf_cuda_wait(0) == 0);
        atomic_store(&held[own], NULL);
        hf_cuda_drop(event);
    }
    return NULL;
}

static void taking(void *unused)
{
    pthread_t thread[THREADS];
    struct double_live live;
    (void)unused;
    must(hf_cuda_find() == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&thread[i], NULL, take_events, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(thread[i], NULL) == 0);
    (void)double_leaks(&live);
    must(live.events <= THREADS);
}
CALL_TEST(no_event_is_two_threads, taking, NULL)

/* Threads that look for the runtime at the same time all find it. */
static void *find(void *unused)
{
    (void)unused;
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS)
        sched_yield();
    must(hf_cuda_find() == 0);
    must(hf_cuda_devices() == 2);
    return NULL;
}

static void finding(void *unused)
{
    pthread_t thread[THREADS];
    (void)unused;
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_create(&thread[i], NULL, find, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        must(pthread_join(thread[i], NULL) == 0);
    must(reason_is_empty());
}
CALL_TEST(many_threads_find_it, finding, NULL)

int main(void)
{
    return RUN_SUITE(marks_follow_the_work, one_stream_waits_for_another,
                     default_streams_of_each_device, a_stream_of_another_device,
                     a_stream_of_the_users_context, a_stream_that_is_destroyed,
                     failures_lose_no_event, the_pool_has_an_end, many_threads,
                     no_event_is_two_threads, many_threads_find_it);
}
