/* The seam to CUDA on a device, with NVIDIA's own runtime and driver; skipped where there is none.
 * The same on the double: what other tests believe of CUDA because of the double is so with both.
 */
#include "alloc/base/options_parse.h"
#include "library.h"
#include "seam.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, DEFAULT_KIND = 4, NON_BLOCKING = 1, GLOBAL_MODE = 0 };

static char path[4096];

/* The runtime's functions that users call. */
static struct {
    int (*cudaGetLastError)(void);
    int (*cudaPeekAtLastError)(void);
    int (*cudaSetDevice)(int device);
    int (*cudaMalloc)(void **out, size_t size);
    int (*cudaFree)(void *ptr);
    int (*cudaMallocAsync)(void **out, size_t size, void *stream);
    int (*cudaHostRegister)(void *at, size_t size, unsigned flags);
    int (*cudaMemcpy)(void *to, const void *from, size_t size, int kind);
    int (*cudaMemcpyAsync)(void *to, const void *from, size_t size, int kind, void *stream);
    int (*cudaMemset)(void *to, int value, size_t size);
    int (*cudaStreamCreateWithFlags)(void **out, unsigned flags);
    int (*cudaStreamSynchronize)(void *stream);
    int (*cudaStreamDestroy)(void *stream);
    int (*cudaStreamBeginCapture)(void *stream, int mode);
    int (*cudaStreamEndCapture)(void *stream, void **graph);
    int (*cudaGraphDestroy)(void *graph);
    int (*cudaDeviceReset)(void);
} cuda;

#define LOOK_UP(name) (*(void **)&cuda.name = symbol_of(handle, #name))

static void start(void)
{
    void *handle = load(path, RTLD_NOW);
    LOOK_UP(cudaGetLastError);
    LOOK_UP(cudaPeekAtLastError);
    LOOK_UP(cudaSetDevice);
    LOOK_UP(cudaMalloc);
    LOOK_UP(cudaFree);
    LOOK_UP(cudaMallocAsync);
    LOOK_UP(cudaHostRegister);
    LOOK_UP(cudaMemcpy);
    LOOK_UP(cudaMemcpyAsync);
    LOOK_UP(cudaMemset);
    LOOK_UP(cudaStreamCreateWithFlags);
    LOOK_UP(cudaStreamSynchronize);
    LOOK_UP(cudaStreamDestroy);
    LOOK_UP(cudaStreamBeginCapture);
    LOOK_UP(cudaStreamEndCapture);
    LOOK_UP(cudaGraphDestroy);
    LOOK_UP(cudaDeviceReset);
    must(hf_cuda_find() == 0);
}

static char *pages(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void finding(void *unused)
{
    size_t granularity;
    uint64_t free, total;
    int local;
    struct hf_cuda_address address;
    (void)unused;
    start();
    must(hf_cuda_devices() > 0 && hf_cuda_current() == 0);
    must(hf_cuda_can_map(0) >= 0);
    must(hf_cuda_can_map(0) == 0 || hf_cuda_granularity(0, &granularity) == 0);
    must(hf_cuda_address(&local, &address) == 0 && address.type == HF_CUDA_NONE);
    must(hf_cuda_wait(-1) == 0);
    must(!hf_cuda_has_context(0));
    must(hf_cuda_memory(0, &free, &total) == 0 && free <= total && total > 0);
    must(hf_cuda_has_context(0));
    must(cuda.cudaPeekAtLastError() == 0);
}
CALL_TEST(finding_creates_no_context, finding, NULL)

/* Mappings that adjoin are one range for copies. */
static void mapping(void *unused)
{
    uintptr_t at;
    size_t granularity;
    (void)unused;
    start();
    if (hf_cuda_can_map(0) == 0)
        return;
    must(hf_cuda_granularity(0, &granularity) == 0);
    must(granularity > 0 && (granularity & (granularity - 1)) == 0);
    const size_t size = granularity < 4 * MIB ? 4 * MIB : granularity;
    must(hf_cuda_reserve(0, (size_t)1 << 32, (size_t)1 << 30, &at) == 0);
    must(hf_cuda_map(0, at, size) == 0 && hf_cuda_map(0, at + size, size) == 0);
    must(hf_cuda_map(0, at, size) == -EINVAL);
    char *host = malloc(2 * size), *copy = calloc(2, size);
    must(host != NULL && copy != NULL);
    memset(host, 7, 2 * size);
    must(cuda.cudaMemcpy((void *)at, host, 2 * size, DEFAULT_KIND) == 0);
    must(cuda.cudaMemcpy(copy, (void *)at, 2 * size, DEFAULT_KIND) == 0);
    must(memcmp(host, copy, 2 * size) == 0);
    must(hf_cuda_wait(0) == 0);
    must(hf_cuda_unmap(0, at, size) == 0 && hf_cuda_unmap(0, at + size, size) == 0);
    must(hf_cuda_map(0, at, size) == 0 && hf_cuda_unmap(0, at, size) == 0);
    must(hf_cuda_unreserve(0, at, (size_t)1 << 32) == 0);
    must(cuda.cudaPeekAtLastError() == 0);
}
CALL_TEST(mapped_memory, mapping, NULL)

static void locking(void *unused)
{
    char *host = pages(2 * MIB);
    void *block;
    struct hf_cuda_address address;
    (void)unused;
    start();
    must(hf_cuda_lock(host, MIB) == 0 && hf_cuda_lock(host + MIB, MIB) == 0);
    must(hf_cuda_lock(host, MIB) == -EINVAL);
    must(cuda.cudaHostRegister(host, MIB, 0) == 712 && cuda.cudaGetLastError() == 712);
    must(hf_cuda_address(host + 100, &address) == 0 && address.type == HF_CUDA_PINNED);
    must(cuda.cudaMalloc(&block, 2 * MIB) == 0);
    must(cuda.cudaMemcpy(block, host, MIB, DEFAULT_KIND) == 0);
    must(cuda.cudaMemcpy(block, host, 2 * MIB, DEFAULT_KIND) == 1);
    must(cuda.cudaGetLastError() == 1);
    must(hf_cuda_unlock(host) == 0 && hf_cuda_unlock(host + MIB) == 0);
    must(hf_cuda_unlock(host) == -EINVAL);
    must(hf_cuda_address(host, &address) == 0 && address.type == HF_CUDA_NONE);
    must(cuda.cudaFree(block) == 0 && cuda.cudaPeekAtLastError() == 0);
}
CALL_TEST(page_locked_memory, locking, NULL)

static void marks(void *unused)
{
    void *stream;
    char *host = pages(MIB);
    struct hf_cuda_event *event;
    uintptr_t block;
    (void)unused;
    start();
    must(hf_cuda_block(0, MIB, &block) == 0 && hf_cuda_lock(host, MIB) == 0);
    must(cuda.cudaStreamCreateWithFlags(&stream, NON_BLOCKING) == 0);
    void *const streams[] = {stream, NULL, (void *)1, (void *)2};
    for (size_t i = 0; i < 4; i++) {
        must(cuda.cudaMemcpyAsync((void *)block, host, MIB, DEFAULT_KIND, streams[i]) == 0);
        must(hf_cuda_mark(0, streams[i], &event) == 0);
        const int before = hf_cuda_is_done(event);
        must(before == 0 || before == -EAGAIN);
        must(cuda.cudaStreamSynchronize(streams[i]) == 0);
        must(hf_cuda_is_done(event) == 0);
        hf_cuda_drop(event);
    }
    must(cuda.cudaStreamDestroy(stream) == 0);
    must(hf_cuda_unblock(0, block) == 0 && hf_cuda_unlock(host) == 0);
    must(cuda.cudaPeekAtLastError() == 0);
}
CALL_TEST(marks_in_streams, marks, NULL)

/* What the seam does meanwhile invalidates no capture. */
static void captures(void *unused)
{
    void *stream, *graph = NULL;
    char *host = pages(MIB);
    struct hf_cuda_event *earlier, *event;
    uintptr_t block;
    (void)unused;
    start();
    must(hf_cuda_mark(0, NULL, &earlier) == 0);
    must(cuda.cudaStreamCreateWithFlags(&stream, NON_BLOCKING) == 0);
    must(cuda.cudaStreamBeginCapture(stream, GLOBAL_MODE) == 0);
    const int done = hf_cuda_is_done(earlier);
    must(done == 0 || done == -EAGAIN);
    must(hf_cuda_mark(0, stream, &event) == -EBUSY);
    must(hf_cuda_mark(0, NULL, &event) == 0);
    hf_cuda_drop(event);
    must(hf_cuda_lock(host, MIB) == 0 && hf_cuda_unlock(host) == 0);
    must(hf_cuda_block(0, MIB, &block) == 0 && hf_cuda_unblock(0, block) == 0);
    must(cuda.cudaStreamEndCapture(stream, &graph) == 0 && graph != NULL);
    must(cuda.cudaGraphDestroy(graph) == 0);
    must(cuda.cudaStreamDestroy(stream) == 0);
    hf_cuda_drop(earlier);
    must(cuda.cudaPeekAtLastError() == 0);
}
CALL_TEST(captures_stay_valid, captures, NULL)

static void addresses(void *unused)
{
    void *block, *pooled;
    struct hf_cuda_address address;
    (void)unused;
    start();
    must(cuda.cudaMalloc(&block, 1000) == 0);
    must(hf_cuda_address((char *)block + 500, &address) == 0);
    must(address.type == HF_CUDA_DEVICE && address.device == 0 && address.pool == 0);
    must(address.start == (uintptr_t)block && address.size >= 1000);
    if (cuda.cudaMallocAsync(&pooled, 1000, NULL) == 0) {
        must(hf_cuda_address(pooled, &address) == 0);
        must(address.type == HF_CUDA_DEVICE && address.device == 0 && address.pool == 1);
    }
    must(cuda.cudaFree(block) == 0);
}
CALL_TEST(addresses_of_others, addresses, NULL)

static void errors(void *unused)
{
    uintptr_t at;
    (void)unused;
    start();
    must(hf_cuda_block(0, (size_t)1 << 50, &at) == -ENOMEM);
    must(reason_has("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)"));
    must(cuda.cudaPeekAtLastError() == 0);
    must(cuda.cudaSetDevice(1000) == 101);
    must(hf_cuda_block(0, (size_t)1 << 50, &at) == -ENOMEM);
    must(cuda.cudaGetLastError() == 101);
}
CALL_TEST(the_last_error_is_kept, errors, NULL)

static void reset(void *unused)
{
    uintptr_t block;
    struct hf_cuda_event *event;
    (void)unused;
    start();
    must(cuda.cudaSetDevice(0) == 0);
    must(hf_cuda_block(0, MIB, &block) == 0 && hf_cuda_mark(0, NULL, &event) == 0);
    must(cuda.cudaDeviceReset() == 0);
    must(!hf_cuda_has_context(0));
    must(hf_cuda_unblock(0, block) == -ESHUTDOWN);
    must(hf_cuda_is_done(event) == -ESHUTDOWN);
    hf_cuda_drop(event);
}
CALL_TEST(a_device_that_is_reset, reset, NULL)

/* In a process of its own: the tests' are to be the first that use CUDA. */
static bool there_is_a_device(void)
{
    int status = 1;
    const pid_t child = fork();
    if (child == 0)
        _exit(dlopen(path, RTLD_NOW) != NULL && hf_cuda_find() == 0 ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int count, char **arguments)
{
    const char *pattern;
    glob_t found;
    TAKE_ARGUMENTS(&pattern);
    if (glob(pattern, 0, NULL, &found) != 0) {
        printf("there is no %s\n", pattern);
        return SKIPPED;
    }
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    if (!there_is_a_device()) {
        printf("there is no device for %s\n", path);
        return SKIPPED;
    }
    return RUN_SUITE(finding_creates_no_context, mapped_memory, page_locked_memory,
                     marks_in_streams, captures_stay_valid, addresses_of_others,
                     the_last_error_is_kept, a_device_that_is_reset);
}
