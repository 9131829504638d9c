/*
 * Another CUDA runtime in the process, on the same driver: memory of its own goes home to it.
 */
#include "api.h"

__attribute__((visibility("default"))) int other_frees;

__attribute__((visibility("default"))) cudaError_t cudaHostAlloc(void **out, size_t size,
                                                                 unsigned flags)
{
    return cuMemHostAlloc(out, size, flags);
}

__attribute__((visibility("default"))) cudaError_t cudaFreeHost(void *ptr)
{
    other_frees++;
    return cuMemFreeHost(ptr);
}
