/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CUDA's types and numbers, as far as homefree uses them, so that it builds without NVIDIA's
 * headers. Owns nothing. tests/cuda/declarations.c compares all of it with these headers.
 *
 * Errors of the runtime and of the driver have the same numbers since CUDA 10.1.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_DRIVER_CUDA_TYPES_H
#define HOMEFREE_SATELLITES_CUDA_DRIVER_CUDA_TYPES_H

#include <stddef.h>

typedef int hf_cu_result, hf_cu_error;
typedef int hf_cu_device;
typedef int hf_cu_device_attribute, hf_cu_pointer_attribute;
typedef int hf_cu_granularity, hf_cu_capture_status, hf_cu_capture_mode;
typedef struct hf_cu_context_of_driver *hf_cu_context;
typedef struct hf_cu_event_of_driver *hf_cu_event;
typedef struct hf_cu_stream_of_driver *hf_cu_stream;
typedef unsigned long long hf_cu_address; /* CUdeviceptr */
typedef unsigned long long hf_cu_handle;  /* CUmemGenericAllocationHandle */

typedef struct {
    int type;
    int id;
} hf_cu_location;

typedef struct {
    int type;
    int handle_types;
    hf_cu_location location;
    void *windows;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} hf_cu_property;

typedef struct {
    hf_cu_location location;
    int flags;
} hf_cu_access;

enum {
    HF_CU_INVALID_VALUE = 1,
    HF_CU_OUT_OF_MEMORY = 2,
    HF_CU_NOT_INITIALIZED = 3,
    HF_CU_DEINITIALIZED = 4, /* cudaErrorCudartUnloading */
    HF_CU_STUB_LIBRARY = 34,
    HF_CU_INSUFFICIENT_DRIVER = 35,        /* the runtime's alone */
    HF_CU_CALL_REQUIRES_NEWER_DRIVER = 36, /* the runtime's alone */
    HF_CU_DEVICE_UNAVAILABLE = 46,
    HF_CU_NO_DEVICE = 100,
    HF_CU_INVALID_DEVICE = 101,
    HF_CU_INVALID_CONTEXT = 201, /* cudaErrorDeviceUninitialized */
    HF_CU_INVALID_HANDLE = 400,
    HF_CU_NOT_READY = 600,
    HF_CU_CONTEXT_IS_DESTROYED = 709,
    HF_CU_HOST_MEMORY_ALREADY_REGISTERED = 712,
    HF_CU_HOST_MEMORY_NOT_REGISTERED = 713,
    HF_CU_NOT_SUPPORTED = 801,
    HF_CU_SYSTEM_DRIVER_MISMATCH = 803,
    HF_CU_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804,
    HF_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    HF_CU_STREAM_CAPTURE_IMPLICIT = 906,
    HF_CU_STREAM_CAPTURE_WRONG_THREAD = 908, /* the last error of captures */
};

enum {
    HF_CU_MEMHOSTREGISTER_PORTABLE = 1,
    HF_CU_MEMHOSTREGISTER_DEVICEMAP = 2,
    HF_CU_EVENT_DISABLE_TIMING = 2,
    HF_CU_STREAM_LEGACY = 1,
    HF_CU_STREAM_PER_THREAD = 2,
    HF_CU_STREAM_CAPTURE_STATUS_NONE = 0,
    HF_CU_STREAM_CAPTURE_MODE_RELAXED = 2,
    HF_CU_MEM_ALLOCATION_TYPE_PINNED = 1,
    HF_CU_MEM_LOCATION_TYPE_DEVICE = 1,
    HF_CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
    HF_CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    HF_CU_MEMORYTYPE_HOST = 1,
    HF_CU_MEMORYTYPE_DEVICE = 2,
    HF_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    HF_CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    HF_CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    HF_CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    HF_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    HF_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    HF_CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    HF_CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
};

#endif
