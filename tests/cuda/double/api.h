/*
 * The functions that the double of CUDA exports, for its own files and for tests that are compiled
 * without NVIDIA's headers. Not to be included beside these. Handles are pointers, enums are ints.
 */
#ifndef HOMEFREE_TESTS_CUDA_DOUBLE_API_H
#define HOMEFREE_TESTS_CUDA_DOUBLE_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef int CUresult, cudaError_t, CUdevice;
typedef void *CUcontext, *CUstream, *CUevent, *cudaStream_t, *cudaEvent_t, *cudaGraph_t;
typedef unsigned long long CUdeviceptr, CUmemHandle;

struct double_location {
    int type, id;
};
struct double_property {
    int type, handle_types;
    struct double_location location;
    void *windows;
    unsigned char flags[8];
};
struct double_access {
    struct double_location location;
    int flags;
};

/* ---- libcuda.so.1 ---- */

CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int *version);
CUresult cuGetErrorName(CUresult error, const char **name);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuCtxSynchronize(void);

CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemHostRegister_v2(void *at, size_t size, unsigned flags);
CUresult cuMemHostUnregister(void *at);
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t size);
CUresult cuMemFree_v2(CUdeviceptr at);
CUresult cuMemAllocManaged(CUdeviceptr *at, size_t size, unsigned flags);
CUresult cuMemAllocHost_v2(void **out, size_t size);
CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags);
CUresult cuMemFreeHost(void *ptr);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr at);
CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr at);
CUresult cuMemGetAllocationGranularity(size_t *granularity, const struct double_property *property,
                                       int which);
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr at, size_t size);
CUresult cuMemCreate(CUmemHandle *handle, size_t size, const struct double_property *property,
                     unsigned long long flags);
CUresult cuMemRelease(CUmemHandle handle);
CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemHandle handle,
                  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr at, size_t size);
CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const struct double_access *access,
                        size_t count);

CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);

/* ---- libcudart.so.13 ---- */

enum { cudaSuccess = 0, cudaErrorNotReady = 600 };
enum {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostRegisterPortable = 1 };
enum {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged
};

struct cudaPointerAttributes {
    int type;
    int device;
    void *devicePointer, *hostPointer;
    long reserved[8];
};

cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);

cudaError_t cudaHostRegister(void *at, size_t size, unsigned flags);
cudaError_t cudaHostUnregister(void *at);
cudaError_t cudaHostGetFlags(unsigned *flags, void *host);
cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned flags);
cudaError_t cudaMallocHost(void **out, size_t size);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaMalloc(void **out, size_t size);
cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height);
cudaError_t cudaFree(void *ptr);
cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream);
cudaError_t cudaMallocManaged(void **out, size_t size, unsigned flags);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *ptr);

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, int kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, cudaStream_t stream);
cudaError_t cudaMemset(void *to, int value, size_t size);
cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream);

cudaError_t cudaStreamCreate(cudaStream_t *out);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *argument);

cudaError_t cudaEventCreate(cudaEvent_t *out);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventDestroy(cudaEvent_t event);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
