/*
 * How fast a device copies from and to page-locked memory: homefree's, and cudaHostAlloc()'s, in
 * turns. Prints gigabytes a second, the median of the rounds: "to.homefree 24.1", …
 */
#include "bench.h"

#include <cuda_runtime_api.h>
#include <homefree/homefree.h>

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 11, COPIES = 8 };

#define SIZE ((size_t)64 << 20)

static void check(int error)
{
    if (error != 0)
        bench_fail("CUDA's error %d", error);
}

static double seconds(void *to, const void *from, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    double began = bench_nanoseconds(CLOCK_MONOTONIC);
    for (int i = 0; i < COPIES; i++)
        check(cudaMemcpyAsync(to, from, SIZE, kind, stream));
    check(cudaStreamSynchronize(stream));
    return (bench_nanoseconds(CLOCK_MONOTONIC) - began) / 1e9;
}

int main(void)
{
    static const char *const names[] = {"homefree", "cuda"};
    void *host[2], *device = NULL;
    double to[2][ROUNDS], from[2][ROUNDS];
    cudaStream_t stream;
    check(cudaStreamCreate(&stream));
    check(hf_space_alloc(&host[0], HF_SPACE_PINNED, 0, SIZE, 0, NULL));
    check(cudaHostAlloc(&host[1], SIZE, 0));
    check(cudaMalloc(&device, SIZE));
    memset(host[0], 1, SIZE);
    memset(host[1], 1, SIZE);
    for (int round = -1; round < ROUNDS; round++)
        for (int turn = 0; turn < 2; turn++) {
            int which = (round & 1) ^ turn;
            int at = round < 0 ? 0 : round; /* the first round warms up */
            to[which][at] = seconds(device, host[which], cudaMemcpyHostToDevice, stream);
            from[which][at] = seconds(host[which], device, cudaMemcpyDeviceToHost, stream);
        }
    for (int which = 0; which < 2; which++) {
        double size = (double)COPIES * (double)SIZE / 1e9;
        printf("to.%s %.4f\n", names[which], size / bench_median(to[which], ROUNDS));
        printf("from.%s %.4f\n", names[which], size / bench_median(from[which], ROUNDS));
    }
    check(hf_space_free(host[0], stream));
    check(cudaFreeHost(host[1]));
    check(cudaFree(device));
    return 0;
}
