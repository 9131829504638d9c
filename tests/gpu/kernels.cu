// The kernels that the tests of tests/gpu enqueue; see gpu.h. Plain C functions, so that the tests
// find them with dlsym().
#include <cuda_runtime.h>

static __global__ void spin(unsigned long long nanoseconds)
{
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - began < nanoseconds);
}

static __global__ void fill(unsigned char *at, size_t size, unsigned char value)
{
    const size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step)
        at[i] = value;
}

extern "C" int gpu_kernel_spin(void *stream, unsigned milliseconds)
{
    spin<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(1000000ull * milliseconds);
    return cudaGetLastError();
}

extern "C" int gpu_kernel_fill(void *at, size_t size, unsigned char value, void *stream)
{
    if (size == 0)
        return cudaSuccess;
    fill<<<256, 256, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<unsigned char *>(at), size,
                                                             value);
    return cudaGetLastError();
}
