/* When CUDA may be called no more, nothing is: in a forked child, while the runtime is unloading,
 * and after a device's context was destroyed. */
#include "api.h"
#include "control.h"
#include "satellites/cuda/driver/cuda_calls.h"
#include "seam.h"
#include "suite.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static uintptr_t reserved, block;
static struct hf_cuda_event *event;
static char page[4096] __attribute__((aligned(4096)));

static void start(void)
{
    must(hf_cuda_find() == 0);
    must(hf_cuda_reserve(0, 2 << 20, 2 << 20, &reserved) == 0);
    must(hf_cuda_map(0, reserved, 2 << 20) == 0);
    must(hf_cuda_block(0, 1, &block) == 0);
    must(hf_cuda_lock(page, sizeof page) == 0);
    must(hf_cuda_mark(0, NULL, &event) == 0);
}

/* Calls of CUDA's, whichever they are. */
static unsigned long calls(void)
{
    static const char *const functions[] = {"cuCtxPushCurrent",
                                            "cuCtxPopCurrent",
                                            "cudaGetDeviceCount",
                                            "cudaGetDevice",
                                            "cuDevicePrimaryCtxRetain",
                                            "cuDevicePrimaryCtxGetState",
                                            "cudaMalloc",
                                            "cudaFree",
                                            "cudaHostRegister",
                                            "cudaHostUnregister",
                                            "cuMemCreate",
                                            "cuMemMap",
                                            "cuMemUnmap",
                                            "cuMemAddressReserve",
                                            "cuMemAddressFree",
                                            "cudaEventCreateWithFlags",
                                            "cudaEventRecord",
                                            "cudaEventQuery",
                                            "cudaEventDestroy",
                                            "cudaDeviceSynchronize",
                                            "cuPointerGetAttributes",
                                            "cudaPeekAtLastError",
                                            "cudaGetLastError",
                                            "cudaMemGetInfo",
                                            "cudaDeviceGetAttribute",
                                            "cuCtxGetCurrent",
                                            "cuGetErrorName",
                                            "cudaStreamIsCapturing",
                                            "cuStreamGetCtx",
                                            "cuMemGetAllocationGranularity"};
    unsigned long sum = 0;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        sum += double_calls(functions[i]);
    return sum;
}

static void must_be_over(void)
{
    const unsigned long before = calls();
    uint64_t free, total;
    uintptr_t at;
    size_t granularity;
    struct hf_cuda_event *other;
    struct hf_cuda_address address;
    must(hf_cuda_find() == -ESHUTDOWN);
    must(hf_cuda_devices() == -ESHUTDOWN);
    must(hf_cuda_current() == 0 && !hf_cuda_has_context(0));
    must(hf_cuda_memory(0, &free, &total) == -ESHUTDOWN);
    must(hf_cuda_lock(page, 1) == -ESHUTDOWN && hf_cuda_unlock(page) == -ESHUTDOWN);
    must(hf_cuda_can_map(0) == -ESHUTDOWN);
    must(hf_cuda_granularity(0, &granularity) == -ESHUTDOWN);
    must(hf_cuda_reserve(0, 2 << 20, 0, &at) == -ESHUTDOWN);
    must(hf_cuda_unmap(0, reserved, 2 << 20) == -ESHUTDOWN);
    must(hf_cuda_map(0, reserved, 2 << 20) == -ESHUTDOWN);
    must(hf_cuda_unreserve(0, reserved, 2 << 20) == -ESHUTDOWN);
    must(hf_cuda_block(0, 1, &at) == -ESHUTDOWN && hf_cuda_unblock(0, block) == -ESHUTDOWN);
    must(hf_cuda_mark(0, NULL, &other) == -ESHUTDOWN);
    must(hf_cuda_is_done(event) == -ESHUTDOWN);
    hf_cuda_drop(event);
    must(hf_cuda_wait(0) == -ESHUTDOWN && hf_cuda_wait(-1) == -ESHUTDOWN);
    must(hf_cuda_address(page, &address) == -ESHUTDOWN && address.type == HF_CUDA_NONE);
    must(calls() == before);
}

static void in_child(void *unused)
{
    int status;
    (void)unused;
    start();
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        hf_cuda_forbid();
        must_be_over();
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    must(double_used(0) > 0 && hf_cuda_unblock(0, block) == 0);
}
CALL_TEST(a_forked_child, in_child, NULL)

/* The seam's lock, the only one of base/fork_lock.h in this program. */
extern pthread_mutex_t only_lock __asm__("__start_hf_fork_locks");

/* Another thread may hold the lock when the process forks. Here it is the same one, which would
 * wait for itself. */
static void in_child_with_lock(void *unused)
{
    int status;
    (void)unused;
    start();
    pthread_mutex_lock(&hf_cuda_lock_of_state);
    const pid_t child = fork();
    must(child >= 0);
    if (child == 0) {
        char text[64];
        /* As the heap's fork handler does, which is not in this program. */
        only_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        hf_cuda_forbid();
        hf_cuda_drop(event);
        hf_cuda_reason(text, sizeof text);
        _exit(0);
    }
    must(waitpid(child, &status, 0) == child && status == 0);
    pthread_mutex_unlock(&hf_cuda_lock_of_state);
}
CALL_TEST(a_forked_child_of_a_busy_process, in_child_with_lock, NULL)

static void in_child_before(void *unused)
{
    (void)unused;
    hf_cuda_forbid();
    must(hf_cuda_find() == -ESHUTDOWN && !hf_cuda_found());
    must(calls() == 0);
}
CALL_TEST(a_forked_child_that_never_looked, in_child_before, NULL)

static void unloading(void *unused)
{
    (void)unused;
    start();
    double_unload();
    must(hf_cuda_unblock(0, block) == -ESHUTDOWN);
    must(reason_has(" (4)"));
    must_be_over();
}
CALL_TEST(a_runtime_that_unloads, unloading, NULL)

static void reset(void *unused)
{
    (void)unused;
    start();
    must(cudaDeviceReset() == 0);
    must(hf_cuda_is_done(event) == -ESHUTDOWN);
    must_be_over();
    /* Even if the device is used again. */
    must(cudaFree(NULL) == 0);
    must_be_over();
}
CALL_TEST(a_device_that_is_reset, reset, NULL)

static void each_error(void *context)
{
    const int error = *(const int *)context;
    start();
    double_fail("cudaFree", 1, error);
    must(hf_cuda_unblock(0, block) == -ESHUTDOWN);
    must_be_over();
}

START_TEST(each_error_that_ends_it)
{
    static int errors[] = {4, 201, 709};
    for (size_t i = 0; i < 3; i++)
        assert_succeeds(outcome_of_call(each_error, &errors[i]));
}
END_TEST

static void while_finding(void *unused)
{
    (void)unused;
    double_fail("cudaGetDeviceCount", 1, 4);
    must(hf_cuda_find() == -ESHUTDOWN);
}
CALL_TEST(unloading_while_it_is_looked_for, while_finding, NULL)

int main(void)
{
    return RUN_SUITE(a_forked_child, a_forked_child_of_a_busy_process,
                     a_forked_child_that_never_looked, a_runtime_that_unloads,
                     a_device_that_is_reset, each_error_that_ends_it,
                     unloading_while_it_is_looked_for);
}
