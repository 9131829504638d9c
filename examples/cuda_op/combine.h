// 3*x - y of arrays in a device's memory, and its gradients. Each call puts a kernel into the
// stream and does not wait. T is float or double.
#ifndef COMBINE_H
#define COMBINE_H

#include <cstddef>
#include <cuda_runtime_api.h>

template <typename T>
cudaError_t combine_forward(const T *x, const T *y, T *out, std::size_t count, cudaStream_t stream);

template <typename T>
cudaError_t combine_backward(const T *gradient, T *of_x, T *of_y, std::size_t count,
                             cudaStream_t stream);

#endif
