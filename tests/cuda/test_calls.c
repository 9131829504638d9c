/* What each call of the seam to CUDA does and returns, that it leaves the thread's context, its
 * last error and errno alone, and that those which promise to create no context create none. */
#include "api.h"
#include "control.h"
#include "seam.h"
#include "suite.h"

#include <errno.h>
#include <sys/mman.h>

enum { MIB = 1 << 20, MAPPING = 2 * MIB };

static char *pages(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *at_address(uintptr_t at)
{
    return (void *)at;
}

static void start(void)
{
    must(hf_cuda_find() == 0);
}

static unsigned contexts(void)
{
    return double_contexts_created(0) + double_contexts_created(1);
}

/* ---- what they do ---- */

static void devices(void *unused)
{
    uint64_t free, total;
    (void)unused;
    start();
    must(hf_cuda_devices() == 2);
    double_memory(1, 64 * (size_t)MIB);
    must(hf_cuda_memory(1, &free, &total) == 0);
    must(total == 64 * MIB && free == total);
    must(hf_cuda_memory(2, &free, &total) == -EINVAL);
    must(hf_cuda_memory(-1, &free, &total) == -EINVAL);
    must(double_contexts_created(0) == 0 && double_contexts_created(1) == 1);
}
CALL_TEST(memory_of_a_device, devices, NULL)

static void current(void *unused)
{
    CUcontext context;
    (void)unused;
    start();
    must(hf_cuda_current() == 0);
    must(contexts() == 0);
    must(cudaSetDevice(1) == 0);
    must(hf_cuda_current() == 1);
    must(cuCtxCreate_v2(&context, 0, 0) == 0);
    must(hf_cuda_current() == 0);
    must(cuCtxDestroy_v2(context) == 0);
    must(hf_cuda_current() == 1);
}
CALL_TEST(the_current_device, current, NULL)

static void locking(void *unused)
{
    char *host = pages(2 * MIB), *spanning;
    unsigned flags;
    void *block;
    (void)unused;
    start();
    must(hf_cuda_unlock(host) == -EINVAL && contexts() == 0);
    must(hf_cuda_lock(host, MIB) == 0);
    must(hf_cuda_lock(host, MIB) == -EINVAL);
    must(reason_has("cuMemHostRegister: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)"));
    must(hf_cuda_lock(host + MIB, MIB) == 0);
    spanning = host + MIB - 1;
    must(cudaHostGetFlags(&flags, host) == 0 && flags == 3); /* portable and mapped */
    must(cudaMalloc(&block, MIB) == 0);
    must(cudaMemcpy(block, host, MIB, cudaMemcpyDefault) == 0);
    must(cudaMemcpy(block, spanning, 2, cudaMemcpyDefault) == 1);
    must(cudaGetLastError() == 1);
    must(hf_cuda_unlock(host) == 0);
    must(hf_cuda_unlock(host) == -EINVAL);
    must(hf_cuda_unlock(host + MIB) == 0);
    must(cudaFree(block) == 0);
    must(double_leaks(NULL) == 0);
}
CALL_TEST(locking_pages, locking, NULL)

/* Another device's thread unlocks without a context of its own. */
static void unlocking(void *unused)
{
    char *host = pages(MIB);
    (void)unused;
    start();
    must(cudaSetDevice(1) == 0);
    must(hf_cuda_lock(host, MIB) == 0);
    must(cuCtxSetCurrent(NULL) == 0);
    must(hf_cuda_unlock(host) == 0);
    must(double_contexts_created(0) == 0);
}
CALL_TEST(locking_uses_the_current_device, unlocking, NULL)

static void mapping(void *unused)
{
    uintptr_t at;
    size_t granularity;
    char bytes[] = "abc", got[4];
    (void)unused;
    start();
    must(hf_cuda_can_map(1) == 1);
    must(hf_cuda_granularity(1, &granularity) == 0 && granularity == MAPPING);
    must(contexts() == 0);
    must(hf_cuda_reserve(1, 1 << 30, 1 << 30, &at) == 0);
    must(at % (1 << 30) == 0);
    must(double_has_context(1));
    must(hf_cuda_map(1, at + MAPPING, MAPPING) == 0);
    must(double_used(1) == MAPPING);
    must(double_write(at_address(at + MAPPING), bytes, 4) == 0);
    must(double_read(at_address(at + MAPPING), got, 4) == 0 && strcmp(got, bytes) == 0);
    must(hf_cuda_map(1, at + MAPPING, MAPPING) == -EINVAL);
    must(hf_cuda_unmap(1, at, MAPPING) == -EINVAL);
    must(hf_cuda_unreserve(1, at, 1 << 30) == -EINVAL);
    must(hf_cuda_unmap(1, at + MAPPING, MAPPING) == 0);
    must(hf_cuda_unreserve(1, at, 1 << 30) == 0);
    must(double_leaks(NULL) == 0);
}
CALL_TEST(mapping_memory, mapping, NULL)

/* Whichever of its calls fails, nothing stays behind. */
static void mapping_fails(void *unused)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    uintptr_t at;
    (void)unused;
    start();
    must(hf_cuda_reserve(0, MAPPING, MAPPING, &at) == 0);
    for (size_t i = 0; i < 3; i++) {
        double_fail(calls[i], 1, 2);
        must(hf_cuda_map(0, at, MAPPING) == -ENOMEM);
        must(reason_has(calls[i]) && reason_has(": CUDA_ERROR_OUT_OF_MEMORY (2)"));
        must(double_used(0) == 0 && double_leaks(NULL) == 1);
    }
    double_memory(0, MAPPING - 1);
    must(hf_cuda_map(0, at, MAPPING) == -ENOMEM);
    must(hf_cuda_unreserve(0, at, MAPPING) == 0);
    must(double_leaks(NULL) == 0);
}
CALL_TEST(mapping_that_fails_leaves_nothing, mapping_fails, NULL)

static void misaligned(void *unused)
{
    uintptr_t at;
    (void)unused;
    start();
    double_ignore_alignment(1);
    must(hf_cuda_reserve(0, MAPPING, MAPPING, &at) == 0 && at % MAPPING == 0);
    must(hf_cuda_unreserve(0, at, MAPPING) == 0);
    must(hf_cuda_reserve(0, MAPPING, 1 << 30, &at) == -ENOTSUP);
    must(double_leaks(NULL) == 0);
}
CALL_TEST(an_alignment_that_is_not_kept, misaligned, NULL)

static void no_mapping(void *unused)
{
    uintptr_t block;
    (void)unused;
    start();
    double_can_map(0, 0);
    must(hf_cuda_can_map(0) == 0 && hf_cuda_can_map(1) == 1 && hf_cuda_can_map(2) == -EINVAL);
    must(hf_cuda_block(0, 1000, &block) == 0);
    must(double_used(0) == MAPPING);
    must(hf_cuda_unblock(0, block + 256) == -EINVAL);
    must(hf_cuda_unblock(0, block) == 0);
    must(double_leaks(NULL) == 0);
}
CALL_TEST(blocks_of_a_device_that_cannot_map, no_mapping, NULL)

static void addresses(void *unused)
{
    struct hf_cuda_address address;
    char *host = pages(MIB), local;
    void *block, *pooled, *managed;
    (void)unused;
    start();
    must(hf_cuda_address(&local, &address) == 0);
    must(address.type == HF_CUDA_NONE && address.device == -1 && contexts() == 0);
    must(cudaSetDevice(1) == 0);
    must(cudaMalloc(&block, 1000) == 0 && cudaMallocAsync(&pooled, 1000, NULL) == 0);
    must(cudaMallocManaged(&managed, 1000, 1) == 0);
    must(hf_cuda_lock(host, MIB) == 0);
    must(hf_cuda_address((char *)block + 999, &address) == 0);
    must(address.type == HF_CUDA_DEVICE && address.device == 1 && address.pool == 0);
    must(address.start == (uintptr_t)block && address.size == 1000);
    must(hf_cuda_address((char *)block + 1000, &address) == 0 && address.type == HF_CUDA_NONE);
    must(hf_cuda_address(pooled, &address) == 0);
    must(address.type == HF_CUDA_DEVICE && address.pool == 1);
    must(hf_cuda_address(managed, &address) == 0 && address.type == HF_CUDA_MANAGED);
    must(hf_cuda_address(host + 1, &address) == 0);
    must(address.type == HF_CUDA_PINNED && address.start == (uintptr_t)host);
    must(address.size == MIB);
    /* A driver from before pools. */
    double_fail("cuPointerGetAttributes", 1, 1);
    must(hf_cuda_address(pooled, &address) == 0);
    must(address.type == HF_CUDA_DEVICE && address.pool == 0);
    /* A process without a context. */
    double_fail("cuPointerGetAttributes", 1, 201);
    must(hf_cuda_address(pooled, &address) == 0 && address.type == HF_CUDA_NONE);
    double_fail("cuPointerGetAttributes", 1, 999);
    must(hf_cuda_address(pooled, &address) == -EIO && address.type == HF_CUDA_NONE);
}
CALL_TEST(addresses_of_others, addresses, NULL)

/* ---- errors ---- */

static void errors(void *unused)
{
    static const struct {
        int error, expected;
    } cases[] = {{1, -EINVAL},   {2, -ENOMEM},   {3, -ENODEV},    {46, -ENODEV},
                 {100, -ENODEV}, {101, -EINVAL}, {400, -EINVAL},  {700, -EIO},
                 {712, -EINVAL}, {719, -EIO},    {801, -ENOTSUP}, {900, -EBUSY},
                 {906, -EBUSY},  {908, -EBUSY},  {909, -EIO},     {999, -EIO}};
    uintptr_t at;
    uint64_t free, total;
    (void)unused;
    start();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double_fail("cudaMalloc", 1, cases[i].error);
        must(hf_cuda_block(0, 1, &at) == cases[i].expected);
        must(reason_has("cuMemAlloc: "));
        double_fail("cudaMemGetInfo", 1, cases[i].error);
        must(hf_cuda_memory(0, &free, &total) == cases[i].expected);
        double_fail("cudaFree", 1, cases[i].error);
        must(hf_cuda_unblock(0, 0) == cases[i].expected);
        double_fail("cuMemAddressReserve", 1, cases[i].error);
        must(hf_cuda_reserve(0, MAPPING, MAPPING, &at) == cases[i].expected);
        double_fail("cuMemAddressFree", 1, cases[i].error);
        must(hf_cuda_unreserve(0, 0, MAPPING) == cases[i].expected);
        double_fail("cuMemUnmap", 1, cases[i].error);
        must(hf_cuda_unmap(0, 0, MAPPING) == cases[i].expected);
        double_fail("cuMemGetAllocationGranularity", 1, cases[i].error);
        must(hf_cuda_granularity(0, &(size_t){0}) == cases[i].expected);
        double_fail("cudaHostRegister", 1, cases[i].error);
        must(hf_cuda_lock(&at, sizeof at) == cases[i].expected);
        double_fail("cudaHostUnregister", 1, cases[i].error);
        must(hf_cuda_unlock(&at) == cases[i].expected);
        double_fail("cudaDeviceGetAttribute", 1, cases[i].error);
        must(hf_cuda_can_map(0) == cases[i].expected);
        double_fail("cudaDeviceSynchronize", 1, cases[i].error);
        must(hf_cuda_wait(0) == cases[i].expected);
        double_fail("cuDevicePrimaryCtxRetain", 1, cases[i].error);
        must(hf_cuda_memory(1, &free, &total) == cases[i].expected);
        double_fail("cuCtxPushCurrent", 1, cases[i].error);
        must(hf_cuda_memory(0, &free, &total) == cases[i].expected);
    }
    double_fail("cuGetErrorName", 1, 1);
    double_fail("cudaMalloc", 1, 12345);
    must(hf_cuda_block(0, 1, &at) == -EIO);
    must(reason_has("cuMemAlloc: error (12345)"));
    must(double_leaks(NULL) == 0);
}
CALL_TEST(errors_of_each_call, errors, NULL)

static void cut_off(void *unused)
{
    char text[] = "1234567";
    uintptr_t at;
    (void)unused;
    start();
    must(hf_cuda_block(0, 0, &at) == -EINVAL);
    hf_cuda_reason(text, 6);
    must(strcmp(text, "cuMem") == 0 && text[6] == '7');
    hf_cuda_reason(text, 1);
    must(text[0] == '\0');
    hf_cuda_reason(text, 0);
}
CALL_TEST(a_reason_is_cut_off, cut_off, NULL)

/* ---- what they leave alone ---- */

static void fail_each(void)
{
    uintptr_t at;
    uint64_t free, total;
    struct hf_cuda_event *event;
    struct hf_cuda_address address;
    static const char *const calls[] = {"cudaMalloc",
                                        "cudaFree",
                                        "cudaHostRegister",
                                        "cudaHostUnregister",
                                        "cudaMemGetInfo",
                                        "cudaEventRecord",
                                        "cudaEventQuery",
                                        "cudaGetDevice",
                                        "cudaDeviceSynchronize",
                                        "cuPointerGetAttributes"};
    must(hf_cuda_mark(0, NULL, &event) == 0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        double_fail_always(calls[i], 999);
    errno = EBADF;
    must(hf_cuda_block(0, 1, &at) == -EIO && hf_cuda_unblock(0, 1) == -EIO);
    must(hf_cuda_lock(&at, 1) == -EIO && hf_cuda_unlock(&at) == -EIO);
    must(hf_cuda_memory(0, &free, &total) == -EIO && hf_cuda_wait(0) == -EIO);
    must(hf_cuda_mark(0, NULL, &(struct hf_cuda_event *){NULL}) == -EIO);
    must(hf_cuda_is_done(event) == -EIO && hf_cuda_address(&at, &address) == -EIO);
    must(hf_cuda_current() == 0);
    must(errno == EBADF);
    double_forget_failures();
    hf_cuda_drop(event);
}

static void last_error(void *unused)
{
    CUcontext before, after;
    (void)unused;
    start();
    must(cudaGetLastError() == 0);
    fail_each();
    must(cudaPeekAtLastError() == 0);
    /* One that is there stays. cudaGetDevice() is the runtime's and would replace it; a thread with
     * a context does without. */
    must(cudaSetDevice(0) == 0 && cudaSetDevice(9) == 101);
    must(cuCtxGetCurrent(&before) == 0);
    fail_each();
    must(cudaGetLastError() == 101);
    must(cuCtxGetCurrent(&after) == 0 && before == after);
    /* Where that is not possible, no error is made to look as if there was none. */
    must(cudaSetDevice(9) == 101 && cuCtxSetCurrent(NULL) == 0);
    double_fail("cudaGetDevice", 1, 999);
    must(hf_cuda_current() == 0);
    must(cudaGetLastError() == 999);
}
CALL_TEST(the_last_error_is_kept, last_error, NULL)

static void contexts_stay(void *unused)
{
    CUcontext own, after;
    uint64_t free, total;
    uintptr_t at;
    struct hf_cuda_event *event;
    int device;
    (void)unused;
    start();
    must(cuCtxCreate_v2(&own, 0, 0) == 0);
    must(hf_cuda_memory(1, &free, &total) == 0 && hf_cuda_block(1, 1, &at) == 0);
    must(hf_cuda_unblock(1, at) == 0 && hf_cuda_mark(1, NULL, &event) == 0);
    must(hf_cuda_block(1, 0, &at) == -EINVAL);
    hf_cuda_drop(event);
    must(hf_cuda_wait(-1) == 0);
    must(cuCtxGetCurrent(&after) == 0 && after == own);
    must(cuCtxDestroy_v2(own) == 0);
    must(cuCtxGetCurrent(&after) == 0 && after == NULL);
    must(hf_cuda_memory(1, &free, &total) == 0);
    must(cuCtxGetCurrent(&after) == 0 && after == NULL);
    must(cudaGetDevice(&device) == 0 && device == 0);
    must(double_contexts_created(0) == 0);
}
CALL_TEST(the_threads_context_is_kept, contexts_stay, NULL)

static void no_context(void *unused)
{
    struct hf_cuda_address address;
    size_t granularity;
    int local;
    (void)unused;
    start();
    errno = EBADF;
    must(hf_cuda_find() == 0 && hf_cuda_found() && hf_cuda_devices() == 2);
    must(hf_cuda_current() == 0 && !hf_cuda_has_context(0) && !hf_cuda_has_context(7));
    must(hf_cuda_can_map(0) == 1 && hf_cuda_granularity(0, &granularity) == 0);
    must(hf_cuda_address(&local, &address) == 0);
    must(hf_cuda_wait(-1) == 0);
    must(errno == EBADF);
    must(hf_cuda_unlock(&local) == -EINVAL);
    must(contexts() == 0);
    must(cudaFree(NULL) == 0);
    must(hf_cuda_has_context(0) && !hf_cuda_has_context(1));
}
CALL_TEST(those_that_create_no_context, no_context, NULL)

/* A capture that another thread's calls, or the thread's own, would invalidate. */
static void captures(void *unused)
{
    cudaStream_t stream, blocking;
    cudaGraph_t graph;
    struct hf_cuda_event *event, *other;
    char *host = pages(MIB);
    uintptr_t at;
    (void)unused;
    start();
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == 0);
    must(cudaStreamCreate(&blocking) == 0);
    must(hf_cuda_mark(0, NULL, &event) == 0);
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == 0);
    must(hf_cuda_is_done(event) == -EAGAIN);
    must(hf_cuda_block(0, 1, &at) == 0 && hf_cuda_lock(host, MIB) == 0);
    must(hf_cuda_unblock(0, at) == 0 && hf_cuda_unlock(host) == 0);
    must(hf_cuda_reserve(0, MAPPING, MAPPING, &at) == 0 && hf_cuda_map(0, at, MAPPING) == 0);
    must(hf_cuda_unmap(0, at, MAPPING) == 0);
    must(hf_cuda_is_done(event) == 0); /* cuMemFree() waits */
    must(hf_cuda_mark(0, NULL, &other) == 0);
    hf_cuda_drop(other);
    must(hf_cuda_mark(0, stream, &other) == -EBUSY);
    must(cudaStreamEndCapture(stream, &graph) == 0);
    must(cudaGraphDestroy(graph) == 0);
    /* The default stream may not be asked then, nor the device waited for. */
    must(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal) == 0);
    must(hf_cuda_mark(0, NULL, &other) == -EBUSY);
    must(hf_cuda_wait(0) == -EBUSY && hf_cuda_wait(-1) == -EBUSY);
    must(cudaStreamEndCapture(blocking, &graph) == 0);
    /* The thread's own mode is what it was. */
    int mode = cudaStreamCaptureModeThreadLocal;
    must(cudaThreadExchangeStreamCaptureMode(&mode) == 0 && mode == cudaStreamCaptureModeGlobal);
    must(hf_cuda_wait(0) == 0);
    must(cudaThreadExchangeStreamCaptureMode(&mode) == 0);
    must(mode == cudaStreamCaptureModeThreadLocal);
}
CALL_TEST(captures_stay_valid, captures, NULL)

int main(void)
{
    return RUN_SUITE(memory_of_a_device, the_current_device, locking_pages,
                     locking_uses_the_current_device, mapping_memory,
                     mapping_that_fails_leaves_nothing, an_alignment_that_is_not_kept,
                     blocks_of_a_device_that_cannot_map, addresses_of_others, errors_of_each_call,
                     a_reason_is_cut_off, the_last_error_is_kept, the_threads_context_is_kept,
                     those_that_create_no_context, captures_stay_valid);
}
