/*
 * Spaces and the process: functions of CUDA's that send blocks home, a fork, a device that is
 * reset, the end of the process. Owns nothing.
 */
#include "gpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Bytes in live blocks of both spaces. */
static uint64_t allocated(void)
{
    return gpu_stats(HF_SPACE_PINNED).allocated + gpu_stats(HF_SPACE_DEVICE).allocated;
}

#define LARGE (40 * GPU_MIB) /* beyond what threads keep */

/* Each function frees a block of ours, as the program calls it. */
static void routed(void)
{
    cudaStream_t stream = gpu_stream();
    gpu_equal(hf_route(), 0);
    gpu_give(gpu_take(HF_SPACE_DEVICE, LARGE, NULL), HF_STREAM_DONE);
    gpu_give(gpu_take(HF_SPACE_PINNED, LARGE, NULL), HF_STREAM_DONE);
    uint64_t before = allocated();
    gpu_cuda(cudaFree(gpu_take(HF_SPACE_DEVICE, LARGE, NULL)));
    gpu_cuda(cudaFree(gpu_take(HF_SPACE_DEVICE, LARGE, stream)));
    gpu_cuda(cudaFreeAsync(gpu_take(HF_SPACE_DEVICE, LARGE, stream), stream));
    gpu_cuda(cudaFreeHost(gpu_take(HF_SPACE_PINNED, LARGE, NULL)));
    free(gpu_take(HF_SPACE_PINNED, LARGE, NULL));
    free(gpu_take(HF_SPACE_DEVICE, LARGE, NULL));
    hf_free(gpu_take(HF_SPACE_PINNED, LARGE, NULL));
    hf_free(gpu_take(HF_SPACE_DEVICE, LARGE, NULL));
    gpu_equal(hf_space_free(malloc(100), HF_STREAM_DONE), 0);
    gpu_cuda(cudaDeviceSynchronize());
    gpu_give(gpu_take(HF_SPACE_DEVICE, LARGE, NULL), HF_STREAM_DONE);
    gpu_give(gpu_take(HF_SPACE_PINNED, LARGE, NULL), HF_STREAM_DONE);
    gpu_equal(allocated(), before);
}

/* CUDA's own blocks go where they always went. */
static void not_ours(void)
{
    void *block = NULL;
    gpu_equal(hf_route(), 0);
    gpu_give(gpu_take(HF_SPACE_DEVICE, LARGE, NULL), HF_STREAM_DONE);
    gpu_cuda(cudaMalloc(&block, LARGE));
    gpu_cuda(cudaFree(block));
    gpu_cuda(cudaMallocHost(&block, LARGE));
    gpu_cuda(cudaFreeHost(block));
    gpu_cuda(cudaMallocAsync(&block, LARGE, NULL));
    gpu_cuda(cudaFreeAsync(block, NULL));
    gpu_cuda(cudaFree(NULL));
    gpu_cuda(cudaFreeHost(NULL));
    gpu_check(cudaFree((void *)(uintptr_t)0x1000) != cudaSuccess);
    gpu_check(cudaGetLastError() != cudaSuccess); /* the program's own error */
}

static void forked(void)
{
    void *device = gpu_take(HF_SPACE_DEVICE, LARGE, NULL);
    void *pinned = gpu_take(HF_SPACE_PINNED, LARGE, NULL);
    pid_t child = fork();
    if (child == 0) {
        void *out = NULL, *host = NULL;
        if (hf_space_alloc(&out, HF_SPACE_DEVICE, 0, 1, 0, NULL) != -ENODEV)
            _exit(2);
        if (hf_space_alloc(&out, HF_SPACE_PINNED, 0, 1, 0, NULL) != -ENODEV)
            _exit(3);
        if (hf_space_alloc(&host, HF_SPACE_HOST, 0, 100, 0, NULL) != 0)
            _exit(4);
        hf_free(host);
        (void)hf_space_free(device, NULL);
        hf_free(pinned);
        _exit(0);
    }
    int status = 0;
    gpu_check(waitpid(child, &status, 0) == child);
    gpu_equal(status, 0);
    gpu_cuda(cudaMemset(device, 1, LARGE));
    gpu_check(gpu_all_bytes(device, GPU_MIB, 1));
    gpu_give(device, NULL);
    gpu_give(pinned, HF_STREAM_DONE);
}

/* After a reset, nothing that was allocated before can be used, but freeing it harms nobody. */
static void reset(void)
{
    cudaStream_t stream = gpu_stream();
    void *small = gpu_take(HF_SPACE_DEVICE, 300, NULL),
         *on_stream = gpu_take(HF_SPACE_DEVICE, LARGE, stream);
    void *pinned = gpu_take(HF_SPACE_PINNED, LARGE, NULL);
    gpu_give(gpu_take(HF_SPACE_DEVICE, LARGE, stream), stream);
    gpu_cuda(cudaDeviceReset());
    void *of_each[] = {small, on_stream, pinned};
    for (size_t i = 0; i < 3; i++) {
        int error = hf_space_free(of_each[i], HF_STREAM_DONE);
        gpu_check(error == 0 || error == -ECANCELED);
    }
    void *out = NULL;
    int error = hf_space_alloc(&out, HF_SPACE_DEVICE, 0, LARGE, 0, NULL);
    gpu_check(error == 0 || error == -ENODEV);
    if (error == 0) {
        gpu_cuda(cudaMemset(out, 3, LARGE));
        gpu_check(gpu_all_bytes(out, LARGE, 3));
    }
    cudaGetLastError();
}

static void *kept[4];

static void free_late(void)
{
    for (int i = 0; i < 4; i++)
        hf_free(kept[i]);
}

/* The process ends with live blocks, with work that runs, and with blocks freed by atexit(). */
static void ends(void)
{
    cudaStream_t stream = gpu_stream();
    gpu_equal(atexit(free_late), 0);
    kept[0] = gpu_take(HF_SPACE_DEVICE, LARGE, stream);
    kept[1] = gpu_take(HF_SPACE_PINNED, LARGE, NULL);
    kept[2] = gpu_take(HF_SPACE_DEVICE, 300, NULL);
    kept[3] = gpu_take(HF_SPACE_PINNED, 300, NULL);
    (void)gpu_take(HF_SPACE_DEVICE, LARGE, stream);
    (void)gpu_take(HF_SPACE_PINNED, LARGE, NULL);
    void *pending = gpu_take(HF_SPACE_DEVICE, LARGE, stream);
    gpu_spin(stream, 200);
    gpu_cuda(cudaMemsetAsync(pending, 1, LARGE, stream));
    gpu_give(pending, HF_STREAM_ANY);
    exit(0);
}

static void *end_here(void *unused)
{
    (void)unused;
    ends();
    return NULL;
}

static void ends_in_a_thread(void)
{
    pthread_t thread;
    gpu_equal(pthread_create(&thread, NULL, end_here, NULL), 0);
    pthread_join(thread, NULL);
    gpu_check(!"the thread ends the process");
}

const struct gpu_case gpu_process[] = {
    {"cudaFree, cudaFreeHost, cudaFreeAsync and free send ours home", routed, false},
    {"CUDA's own blocks stay CUDA's", not_ours, false},
    {"a forked child", forked, false},
    {"a device that is reset", reset, false},
    {"the end with live blocks", ends, false},
    {"the end in a thread", ends_in_a_thread, false},
    {NULL, NULL, false},
};
