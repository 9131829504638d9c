#include "combine.h"

namespace
{

constexpr unsigned threads = 256;

// Enough blocks for the array, up to a number beyond which each thread takes more elements.
unsigned blocks(std::size_t count)
{
    const std::size_t wanted = (count + threads - 1) / threads;
    return static_cast<unsigned>(wanted < 4096 ? wanted : 4096);
}

template <typename T> __global__ void forward(const T *x, const T *y, T *out, std::size_t count)
{
    const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
    for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        out[i] = 3 * x[i] - y[i];
}

template <typename T>
__global__ void backward(const T *gradient, T *of_x, T *of_y, std::size_t count)
{
    const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
    for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        of_x[i] = 3 * gradient[i];
        of_y[i] = -gradient[i];
    }
}

} // namespace

template <typename T>
cudaError_t combine_forward(const T *x, const T *y, T *out, std::size_t count, cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    forward<<<blocks(count), threads, 0, stream>>>(x, y, out, count);
    return cudaGetLastError();
}

template <typename T>
cudaError_t combine_backward(const T *gradient, T *of_x, T *of_y, std::size_t count,
                             cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    backward<<<blocks(count), threads, 0, stream>>>(gradient, of_x, of_y, count);
    return cudaGetLastError();
}

#define INSTANTIATE(T)                                                                          \
    template cudaError_t combine_forward(const T *, const T *, T *, std::size_t, cudaStream_t); \
    template cudaError_t combine_backward(const T *, T *, T *, std::size_t, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
