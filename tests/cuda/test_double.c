/* The double of CUDA behaves as CUDA does where other tests rest on it: memory that the host cannot
 * touch, work that runs later and in order, registrations, captures, failures and accounts. */
#include "api.h"
#include "control.h"
#include "death.h"
#include "suite.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SIZE = 1 << 20, MAP_SIZE = 2 << 20 };

static char *pages(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void touch(void *unused)
{
    void *block;
    (void)unused;
    must(cudaMalloc(&block, 100) == 0);
    *(volatile char *)block = 1;
}

START_TEST(the_host_cannot_touch_a_device)
{
    const struct outcome *outcome = outcome_of_call(touch, NULL);
    ck_assert(WIFSIGNALED(outcome->status) && WTERMSIG(outcome->status) == SIGSEGV);
}
END_TEST

START_TEST(work_runs_with_the_clock)
{
    cudaStream_t stream;
    void *block;
    char *host;
    ck_assert_int_eq(cudaStreamCreate(&stream), 0);
    ck_assert_int_eq(cudaMalloc(&block, SIZE), 0);
    ck_assert_int_eq(cudaMallocHost((void **)&host, SIZE), 0);
    memset(host, 1, SIZE);
    ck_assert_int_eq(cudaMemsetAsync(block, 7, SIZE, stream), 0);
    ck_assert_int_eq(cudaMemcpyAsync(host, block, SIZE, cudaMemcpyDefault, stream), 0);
    ck_assert_uint_eq(double_pending(), 2);
    double_advance(1);
    ck_assert_int_eq(host[0], 1);
    ck_assert_int_eq(cudaStreamQuery(stream), cudaErrorNotReady);
    double_advance(1);
    ck_assert_int_eq(host[SIZE - 1], 7);
    ck_assert_int_eq(cudaStreamQuery(stream), 0);
    ck_assert_int_eq(cudaFree(block), 0);
    ck_assert_int_eq(cudaFreeHost(host), 0);
    ck_assert_int_eq(cudaStreamDestroy(stream), 0);
    ck_assert_uint_eq(double_leaks(NULL), 0);
}
END_TEST

static int order[8], done;

static void note(void *number)
{
    order[done++] = (int)(size_t)number;
}

START_TEST(streams_wait_for_events_and_the_default_stream)
{
    cudaStream_t first, second, apart;
    cudaEvent_t event;
    ck_assert_int_eq(cudaStreamCreate(&first), 0);
    ck_assert_int_eq(cudaStreamCreate(&second), 0);
    ck_assert_int_eq(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking), 0);
    ck_assert_int_eq(cudaEventCreate(&event), 0);
    double_enqueue(first, note, (void *)1);
    ck_assert_int_eq(cudaEventRecord(event, first), 0);
    ck_assert_int_eq(cudaEventQuery(event), cudaErrorNotReady);
    ck_assert_int_eq(cudaStreamWaitEvent(apart, event, 0), 0);
    double_enqueue(apart, note, (void *)2);
    double_enqueue(NULL, note, (void *)3);
    double_enqueue(second, note, (void *)4);
    ck_assert_int_eq(cudaStreamSynchronize(second), 0);
    ck_assert_int_eq(done, 3);
    ck_assert(order[0] == 1 && order[1] == 3 && order[2] == 4);
    ck_assert_int_eq(cudaEventQuery(event), 0);
    double_advance(2);
    ck_assert_int_eq(order[3], 2);
    ck_assert_uint_eq(double_pending(), 0);
}
END_TEST

START_TEST(registrations)
{
    void *block;
    char *host = pages(2 * SIZE);
    ck_assert_int_eq(cudaMalloc(&block, 2 * SIZE), 0);
    ck_assert_int_eq(cudaHostRegister(host, SIZE, 0), 0);
    ck_assert_int_eq(cudaHostRegister(host, SIZE, 0), 712);
    ck_assert_int_eq(cudaHostRegister(host + SIZE, SIZE, 0), 0);
    ck_assert_int_eq(cudaMemcpy(block, host, SIZE, cudaMemcpyDefault), 0);
    ck_assert_int_eq(cudaMemcpy(block, host, SIZE + 1, cudaMemcpyDefault), 1);
    ck_assert_int_eq(cudaMemcpyAsync(block, host + 1, SIZE, cudaMemcpyDefault, NULL), 1);
    ck_assert_int_eq(cudaHostUnregister(host), 0);
    ck_assert_int_eq(cudaHostUnregister(host), 713);
    ck_assert_int_eq(cudaHostUnregister(host + SIZE), 0);
    ck_assert_int_eq(cudaGetLastError(), 713);
    ck_assert_int_eq(cudaPeekAtLastError(), 0);
}
END_TEST

START_TEST(work_on_memory_that_is_gone)
{
    cudaStream_t stream;
    void *block;
    char *host = pages(SIZE);
    ck_assert_int_eq(cudaStreamCreate(&stream), 0);
    ck_assert_int_eq(cudaMalloc(&block, SIZE), 0);
    ck_assert_int_eq(cudaHostRegister(host, SIZE, 0), 0);
    ck_assert_int_eq(cudaMemcpyAsync(host, block, SIZE, cudaMemcpyDefault, stream), 0);
    ck_assert_int_eq(cudaHostUnregister(host), 0);
    ck_assert_int_eq(cudaStreamSynchronize(stream), 700);
    ck_assert_uint_eq(double_faults(), 1);
    ck_assert_int_eq(cudaFree(block), 700);
}
END_TEST

START_TEST(mappings)
{
    const struct double_property property = {1, 0, {1, 1}, NULL, {0}};
    const struct double_access access = {{1, 1}, 3};
    CUmemHandle handle;
    CUdeviceptr at;
    char bytes[4] = "abc", got[4];
    ck_assert_int_eq(cuInit(0), 0);
    ck_assert_int_eq(cuMemAddressReserve(&at, 2 * (size_t)MAP_SIZE, MAP_SIZE, 0, 0), 0);
    ck_assert_int_eq(cuMemCreate(&handle, MAP_SIZE, &property, 0), 0);
    ck_assert_int_eq(cuMemMap(at + MAP_SIZE, MAP_SIZE, 0, handle, 0), 0);
    ck_assert_int_eq(cuMemMap(at + MAP_SIZE, MAP_SIZE, 0, handle, 0), 1);
    ck_assert_int_eq(cuMemRelease(handle), 0);
    ck_assert_int_eq(cuMemSetAccess(at + MAP_SIZE, MAP_SIZE, &access, 1), 0);
    ck_assert_int_eq(double_write((void *)(uintptr_t)(at + MAP_SIZE), bytes, 4), 0);
    ck_assert_int_eq(cudaMemcpy(got, (void *)(uintptr_t)(at + MAP_SIZE), 4, cudaMemcpyDefault), 0);
    ck_assert_str_eq(got, "abc");
    ck_assert_int_eq(cudaMemcpy(got, (void *)(uintptr_t)at, 4, cudaMemcpyDefault), 1);
    ck_assert_uint_eq(double_used(1), MAP_SIZE);
    ck_assert_int_eq(cuMemAddressFree(at, 2 * (size_t)MAP_SIZE), 1);
    ck_assert_int_eq(cuMemUnmap(at + MAP_SIZE, MAP_SIZE / 2), 1);
    ck_assert_int_eq(cuMemUnmap(at + MAP_SIZE, MAP_SIZE), 0);
    ck_assert_uint_eq(double_used(1), 0);
    ck_assert_int_eq(cuMemAddressFree(at, 2 * (size_t)MAP_SIZE), 0);
    ck_assert_uint_eq(double_leaks(NULL), 0);
    ck_assert_int_eq(double_has_context(1), 0);
}
END_TEST

START_TEST(pools_free_in_the_streams_order)
{
    cudaStream_t stream;
    void *block;
    ck_assert_int_eq(cudaStreamCreate(&stream), 0);
    ck_assert_int_eq(cudaMallocAsync(&block, SIZE, stream), 0);
    ck_assert_int_eq(cudaMemsetAsync(block, 1, SIZE, stream), 0);
    ck_assert_int_eq(cudaFreeAsync(block, stream), 0);
    ck_assert_int_eq(cudaFreeAsync(block, stream), 1);
    ck_assert_uint_eq(double_used(0), MAP_SIZE);
    double_advance(2);
    ck_assert_uint_eq(double_used(0), 0);
}
END_TEST

START_TEST(failures_and_counters)
{
    void *block;
    double_fail("cudaMalloc", 2, 2);
    ck_assert_int_eq(cudaMalloc(&block, 1), 0);
    ck_assert_int_eq(cudaMalloc(&block, 1), 2);
    ck_assert_int_eq(cudaMalloc(&block, 1), 0);
    double_fail_always("cuMemAlloc_v2", 999);
    CUdeviceptr at;
    ck_assert_int_eq(cuMemAlloc_v2(&at, 1), 999);
    ck_assert_int_eq(cuMemAlloc_v2(&at, 1), 999);
    double_forget_failures();
    double_fail("cudaMalloc", 1, 4);
    ck_assert_int_eq(cuMemAlloc_v2(&at, 1), 4);
    ck_assert_uint_eq(double_calls("cudaMalloc"), 6);
    ck_assert_uint_eq(double_calls("cuMemAlloc"), 3);
    double_memory(0, 5 * (size_t)MAP_SIZE);
    ck_assert_int_eq(cudaMalloc(&block, 3 * (size_t)MAP_SIZE), 0);
    ck_assert_int_eq(cudaMalloc(&block, 1), 2);
}
END_TEST

START_TEST(captures)
{
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraph_t graph;
    void *block;
    int status;
    ck_assert_int_eq(cudaStreamCreate(&stream), 0);
    ck_assert_int_eq(cudaEventCreate(&event), 0);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), 0);
    ck_assert_int_eq(cudaStreamIsCapturing(stream, &status), 0);
    ck_assert_int_eq(status, 1);
    ck_assert_int_eq(cudaStreamIsCapturing(NULL, &status), 906);
    ck_assert_int_eq(double_enqueue(stream, note, NULL), 0);
    ck_assert_uint_eq(double_pending(), 0);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), 0);
    ck_assert_int_eq(cudaGraphDestroy(graph), 0);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), 0);
    ck_assert_int_eq(cudaMalloc(&block, 1), 900);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), 901);
    int mode = cudaStreamCaptureModeRelaxed;
    ck_assert_int_eq(cudaThreadExchangeStreamCaptureMode(&mode), 0);
    ck_assert_int_eq(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), 0);
    ck_assert_int_eq(cudaMalloc(&block, 1), 0);
    ck_assert_int_eq(cudaDeviceSynchronize(), 900);
    ck_assert_int_eq(cudaStreamEndCapture(stream, &graph), 901);
}
END_TEST

static void leak(void *unused)
{
    void *block;
    (void)unused;
    setenv("DOUBLE_CUDA_AT_EXIT", "1", 1);
    must(cudaMalloc(&block, 1) == 0);
    exit(0);
}

START_TEST(what_is_live_at_exit)
{
    assert_exited(outcome_of_call(leak, NULL), 86, 1, "live at exit: 1 blocks, 0 reserved");
}
END_TEST

START_TEST(a_reset_ends_everything)
{
    cudaEvent_t event;
    void *block;
    ck_assert_int_eq(cudaMalloc(&block, 1), 0);
    ck_assert_int_eq(cudaEventCreate(&event), 0);
    ck_assert_int_eq(cudaDeviceReset(), 0);
    ck_assert_int_eq(double_has_context(0), 0);
    ck_assert_uint_eq(double_used(0), 0);
    ck_assert_int_eq(cudaEventQuery(event), 709);
    ck_assert_uint_eq(double_contexts_created(0), 2);
    double_unload();
    ck_assert_int_eq(cudaFree(block), 4);
}
END_TEST

int main(void)
{
    return RUN_SUITE(the_host_cannot_touch_a_device, work_runs_with_the_clock,
                     streams_wait_for_events_and_the_default_stream, registrations,
                     work_on_memory_that_is_gone, mappings, pools_free_in_the_streams_order,
                     failures_and_counters, captures, what_is_live_at_exit,
                     a_reset_ends_everything);
}
