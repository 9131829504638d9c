/* Our declarations of CUDA's types, numbers and functions (satellites/cuda/driver/cuda_types.h and
 * cuda_functions.def) are those of NVIDIA's headers. Nearly all is said when this compiles. */
#include "satellites/cuda/driver/cuda_types.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#define SAME(condition) _Static_assert(condition, #condition)

/* ---- structures ---- */

#define SAME_SIZE(ours, theirs)           \
    SAME(sizeof(ours) == sizeof(theirs)); \
    SAME(_Alignof(ours) == _Alignof(theirs))
#define SAME_PLACE(ours, our_member, theirs, their_member)              \
    SAME(offsetof(ours, our_member) == offsetof(theirs, their_member)); \
    SAME(sizeof(((ours *)0)->our_member) == sizeof(((theirs *)0)->their_member))

SAME_SIZE(hf_cu_location, CUmemLocation);
SAME_PLACE(hf_cu_location, type, CUmemLocation, type);
SAME_PLACE(hf_cu_location, id, CUmemLocation, id);

SAME_SIZE(hf_cu_property, CUmemAllocationProp);
SAME_PLACE(hf_cu_property, type, CUmemAllocationProp, type);
SAME_PLACE(hf_cu_property, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_PLACE(hf_cu_property, location, CUmemAllocationProp, location);
SAME_PLACE(hf_cu_property, windows, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(hf_cu_property, flags, CUmemAllocationProp, allocFlags);
SAME_PLACE(hf_cu_property, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_PLACE(hf_cu_property, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_PLACE(hf_cu_property, flags.usage, CUmemAllocationProp, allocFlags.usage);

SAME_SIZE(hf_cu_access, CUmemAccessDesc);
SAME_PLACE(hf_cu_access, location, CUmemAccessDesc, location);
SAME_PLACE(hf_cu_access, flags, CUmemAccessDesc, flags);

/* ---- numbers ---- */

#define SAME_ERROR(name, runtimes)                     \
    SAME((int)HF_CU_##name == (int)CUDA_ERROR_##name); \
    SAME((int)HF_CU_##name == (int)runtimes)

SAME_ERROR(INVALID_VALUE, cudaErrorInvalidValue);
SAME_ERROR(OUT_OF_MEMORY, cudaErrorMemoryAllocation);
SAME_ERROR(NOT_INITIALIZED, cudaErrorInitializationError);
SAME_ERROR(DEINITIALIZED, cudaErrorCudartUnloading);
SAME_ERROR(STUB_LIBRARY, cudaErrorStubLibrary);
SAME((int)HF_CU_INSUFFICIENT_DRIVER == (int)cudaErrorInsufficientDriver);
SAME((int)HF_CU_CALL_REQUIRES_NEWER_DRIVER == (int)cudaErrorCallRequiresNewerDriver);
SAME_ERROR(DEVICE_UNAVAILABLE, cudaErrorDevicesUnavailable);
SAME_ERROR(NO_DEVICE, cudaErrorNoDevice);
SAME_ERROR(INVALID_DEVICE, cudaErrorInvalidDevice);
SAME_ERROR(INVALID_CONTEXT, cudaErrorDeviceUninitialized);
SAME_ERROR(INVALID_HANDLE, cudaErrorInvalidResourceHandle);
SAME_ERROR(NOT_READY, cudaErrorNotReady);
SAME_ERROR(CONTEXT_IS_DESTROYED, cudaErrorContextIsDestroyed);
SAME_ERROR(HOST_MEMORY_ALREADY_REGISTERED, cudaErrorHostMemoryAlreadyRegistered);
SAME_ERROR(HOST_MEMORY_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered);
SAME_ERROR(NOT_SUPPORTED, cudaErrorNotSupported);
SAME_ERROR(SYSTEM_DRIVER_MISMATCH, cudaErrorSystemDriverMismatch);
SAME((int)HF_CU_COMPAT_NOT_SUPPORTED_ON_DEVICE == (int)cudaErrorCompatNotSupportedOnDevice);
SAME_ERROR(STREAM_CAPTURE_UNSUPPORTED, cudaErrorStreamCaptureUnsupported);
SAME_ERROR(STREAM_CAPTURE_IMPLICIT, cudaErrorStreamCaptureImplicit);
SAME_ERROR(STREAM_CAPTURE_WRONG_THREAD, cudaErrorStreamCaptureWrongThread);

#define SAME_NUMBER(name) SAME((int)HF_CU_##name == (int)CU_##name)
SAME_NUMBER(MEMHOSTREGISTER_PORTABLE);
SAME_NUMBER(MEMHOSTREGISTER_DEVICEMAP);
SAME_NUMBER(EVENT_DISABLE_TIMING);
SAME_NUMBER(STREAM_CAPTURE_STATUS_NONE);
SAME_NUMBER(STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_NUMBER(MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_NUMBER(MEMORYTYPE_HOST);
SAME_NUMBER(MEMORYTYPE_DEVICE);
SAME_NUMBER(DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_NUMBER(POINTER_ATTRIBUTE_CONTEXT);
SAME_NUMBER(POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_NUMBER(POINTER_ATTRIBUTE_IS_MANAGED);
SAME_NUMBER(POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_NUMBER(POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_NUMBER(POINTER_ATTRIBUTE_MEMPOOL_HANDLE);

/* ---- types ---- */

SAME_SIZE(hf_cu_result, CUresult);
SAME_SIZE(hf_cu_error, cudaError_t);
SAME_SIZE(hf_cu_device, CUdevice);
SAME_SIZE(hf_cu_device_attribute, CUdevice_attribute);
SAME_SIZE(hf_cu_pointer_attribute, CUpointer_attribute);
SAME_SIZE(hf_cu_granularity, CUmemAllocationGranularity_flags);
SAME_SIZE(hf_cu_capture_status, CUstreamCaptureStatus);
SAME_SIZE(hf_cu_capture_mode, CUstreamCaptureMode);
SAME_SIZE(hf_cu_context, CUcontext);
SAME_SIZE(hf_cu_event, CUevent);
SAME_SIZE(hf_cu_stream, CUstream);
SAME_SIZE(hf_cu_address, CUdeviceptr);
SAME_SIZE(hf_cu_handle, CUmemGenericAllocationHandle);

/* ---- functions: the same list, read with NVIDIA's types ---- */

#define hf_cu_result            CUresult
#define hf_cu_error             cudaError_t
#define hf_cu_device            CUdevice
#define hf_cu_device_attribute  CUdevice_attribute
#define hf_cu_pointer_attribute CUpointer_attribute
#define hf_cu_granularity       CUmemAllocationGranularity_flags
#define hf_cu_capture_status    CUstreamCaptureStatus
#define hf_cu_capture_mode      CUstreamCaptureMode
#define hf_cu_context           CUcontext
#define hf_cu_event             CUevent
#define hf_cu_stream            CUstream
#define hf_cu_address           CUdeviceptr
#define hf_cu_handle            CUmemGenericAllocationHandle
#define hf_cu_property          CUmemAllocationProp
#define hf_cu_access            CUmemAccessDesc

#define SAME_FUNCTION(result, name, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), #name)
/* The headers name the symbol behind a function by macros of the function's name. */
#define TEXT(name)  TEXT_(name)
#define TEXT_(name) #name
#define SAME_SYMBOL(name, symbol) \
    _Static_assert(sizeof TEXT(name) == sizeof #symbol, "symbol of " #name)

#define HF_CUDA_RUNTIME(result, name, parameters) SAME_FUNCTION(result, name, parameters);
#define HF_CUDA_DRIVER(name, symbol, parameters)   \
    SAME_FUNCTION(hf_cu_result, name, parameters); \
    SAME_SYMBOL(name, symbol);
#define HF_CUDA_DRIVER_OPTIONAL(name, symbol, parameters) HF_CUDA_DRIVER(name, symbol, parameters)
#include "satellites/cuda/driver/cuda_functions.def"

/* These are pointers, which only a program can compare. */
int main(void)
{
    return (size_t)CU_STREAM_LEGACY != HF_CU_STREAM_LEGACY ||
           (size_t)CU_STREAM_PER_THREAD != HF_CU_STREAM_PER_THREAD;
}
