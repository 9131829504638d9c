/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, page-locked memory and devices' memory, one call of CUDA's after the other. Owns nothing
 * and takes no lock; see cuda.h, and cuda_calls.h for contexts and errors.
 */
#include "satellites/cuda/driver/cuda.h"
#include "satellites/cuda/driver/cuda_calls.h"

#include <errno.h>

/* ---- devices: these create no context ---- */

/* -EINVAL if there is no such device; otherwise the functions. */
static int device_functions(int device, const struct hf_cuda_functions **out)
{
    *out = hf_cuda_functions();
    if (*out == NULL)
        return hf_cuda_found() ? -ESHUTDOWN : -ENODEV;
    return device < 0 || device >= (*out)->count ? -EINVAL : 0;
}

int hf_cuda_devices(void)
{
    const struct hf_cuda_functions *call = hf_cuda_functions();
    return call != NULL ? call->count : hf_cuda_found() ? -ESHUTDOWN : -ENODEV;
}

/* The runtime knows the device that was chosen in a thread which has no context yet. */
static int chosen_device(const struct hf_cuda_functions *call)
{
    int device = 0;
    const struct hf_cuda_last last = hf_cuda_last_before(call);
    const hf_cu_error error = call->cudaGetDevice(&device);
    hf_cuda_last_after(call, last, error);
    return error == 0 && device >= 0 && device < call->count ? device : 0;
}

int hf_cuda_current(void)
{
    const struct hf_cuda_functions *call = hf_cuda_functions();
    if (call == NULL)
        return 0;
    const int saved_errno = errno;
    int found = -1;
    hf_cu_context context = NULL;
    hf_cu_device device;
    if (call->cuCtxGetCurrent(&context) == 0 && context != NULL &&
        call->cuCtxGetDevice(&device) == 0)
        for (int i = 0; i < call->count; i++)
            found = call->device[i] == device ? i : found;
    if (found < 0)
        found = chosen_device(call);
    errno = saved_errno;
    return found;
}

bool hf_cuda_has_context(int device)
{
    const struct hf_cuda_functions *call;
    const int saved_errno = errno;
    unsigned flags;
    int active = 0;
    if (device_functions(device, &call) != 0 ||
        call->cuDevicePrimaryCtxGetState(call->device[device], &flags, &active) != 0)
        active = 0;
    errno = saved_errno;
    return active != 0;
}

int hf_cuda_memory(int device, uint64_t *free, uint64_t *total)
{
    struct hf_cuda_scope scope;
    size_t available = 0, all = 0;
    int result = hf_cuda_enter(&scope, device);
    if (result != 0)
        return result;
    result = hf_cuda_done(&scope, "cuMemGetInfo", scope.call->cuMemGetInfo(&available, &all));
    if (result == 0) {
        *free = available;
        *total = all;
    }
    return result;
}

/* ---- page-locked memory ---- */

int hf_cuda_lock(void *at, size_t size)
{
    struct hf_cuda_scope scope;
    const unsigned flags = HF_CU_MEMHOSTREGISTER_PORTABLE | HF_CU_MEMHOSTREGISTER_DEVICEMAP;
    int result = hf_cuda_enter_any(&scope);
    if (result == -EINVAL)
        result = hf_cuda_enter(&scope, hf_cuda_current());
    if (result != 0)
        return result;
    return hf_cuda_done(&scope, "cuMemHostRegister",
                        scope.call->cuMemHostRegister(at, size, flags));
}

int hf_cuda_unlock(void *at)
{
    struct hf_cuda_scope scope;
    const int result = hf_cuda_enter_any(&scope);
    if (result != 0)
        return result;
    return hf_cuda_done(&scope, "cuMemHostUnregister", scope.call->cuMemHostUnregister(at));
}

/* ---- a device's memory ---- */

static bool has_mapping(const struct hf_cuda_functions *call)
{
    return call->cuMemGetAllocationGranularity != NULL && call->cuMemAddressReserve != NULL &&
           call->cuMemAddressFree != NULL && call->cuMemCreate != NULL &&
           call->cuMemRelease != NULL && call->cuMemMap != NULL && call->cuMemUnmap != NULL &&
           call->cuMemSetAccess != NULL;
}

int hf_cuda_can_map(int device)
{
    const struct hf_cuda_functions *call;
    const int saved_errno = errno;
    int value = 0, result = device_functions(device, &call);
    if (result == 0 && has_mapping(call))
        result =
            hf_cuda_failed("cuDeviceGetAttribute",
                           call->cuDeviceGetAttribute(
                               &value, HF_CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                               call->device[device]));
    errno = saved_errno;
    return result != 0 ? result : value != 0;
}

static hf_cu_location location_of(const struct hf_cuda_functions *call, int device)
{
    return (hf_cu_location){HF_CU_MEM_LOCATION_TYPE_DEVICE, call->device[device]};
}

static hf_cu_property property_of(const struct hf_cuda_functions *call, int device)
{
    return (hf_cu_property){.type = HF_CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = location_of(call, device)};
}

int hf_cuda_granularity(int device, size_t *granularity)
{
    const struct hf_cuda_functions *call;
    const int saved_errno = errno;
    size_t size = 0;
    int result = device_functions(device, &call);
    if (result != 0)
        return result;
    if (!has_mapping(call))
        return -ENOTSUP;
    const hf_cu_property property = property_of(call, device);
    result = hf_cuda_failed(
        "cuMemGetAllocationGranularity",
        call->cuMemGetAllocationGranularity(&size, &property, HF_CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    errno = saved_errno;
    if (result == 0)
        *granularity = size;
    return result;
}

/* hf_cuda_enter() for a driver that has the functions. */
static int enter_to_map(struct hf_cuda_scope *scope, int device)
{
    const struct hf_cuda_functions *call = hf_cuda_functions();
    return call != NULL && !has_mapping(call) ? -ENOTSUP : hf_cuda_enter(scope, device);
}

int hf_cuda_reserve(int device, size_t size, size_t alignment, uintptr_t *at)
{
    struct hf_cuda_scope scope;
    hf_cu_address reserved = 0;
    int result = enter_to_map(&scope, device);
    if (result != 0)
        return result;
    hf_cu_result error = scope.call->cuMemAddressReserve(&reserved, size, alignment, 0, 0);
    /* That the alignment is kept is documented, but few programs ask for one. */
    if (error == 0 && alignment != 0 && reserved % alignment != 0) {
        (void)scope.call->cuMemAddressFree(reserved, size);
        error = HF_CU_NOT_SUPPORTED;
    }
    result = hf_cuda_done(&scope, "cuMemAddressReserve", error);
    if (result == 0)
        *at = (uintptr_t)reserved;
    return result;
}

int hf_cuda_unreserve(int device, uintptr_t at, size_t size)
{
    struct hf_cuda_scope scope;
    const int result = enter_to_map(&scope, device);
    if (result != 0)
        return result;
    return hf_cuda_done(&scope, "cuMemAddressFree", scope.call->cuMemAddressFree(at, size));
}

/* The mapping alone keeps the memory: its handle is released at once. */
int hf_cuda_map(int device, uintptr_t at, size_t size)
{
    struct hf_cuda_scope scope;
    hf_cu_handle handle;
    int result = enter_to_map(&scope, device);
    if (result != 0)
        return result;
    const struct hf_cuda_functions *call = scope.call;
    const hf_cu_property property = property_of(call, device);
    const hf_cu_access access = {location_of(call, device), HF_CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    hf_cu_result error = call->cuMemCreate(&handle, size, &property, 0);
    if (error != 0)
        return hf_cuda_done(&scope, "cuMemCreate", error);
    const char *name = "cuMemMap";
    error = call->cuMemMap(at, size, 0, handle, 0);
    (void)call->cuMemRelease(handle);
    if (error == 0) {
        name = "cuMemSetAccess";
        error = call->cuMemSetAccess(at, size, &access, 1);
        if (error != 0)
            (void)call->cuMemUnmap(at, size);
    }
    return hf_cuda_done(&scope, name, error);
}

int hf_cuda_unmap(int device, uintptr_t at, size_t size)
{
    struct hf_cuda_scope scope;
    const int result = enter_to_map(&scope, device);
    if (result != 0)
        return result;
    return hf_cuda_done(&scope, "cuMemUnmap", scope.call->cuMemUnmap(at, size));
}

int hf_cuda_block(int device, size_t size, uintptr_t *at)
{
    struct hf_cuda_scope scope;
    hf_cu_address block = 0;
    int result = hf_cuda_enter(&scope, device);
    if (result != 0)
        return result;
    result = hf_cuda_done(&scope, "cuMemAlloc", scope.call->cuMemAlloc(&block, size));
    if (result == 0)
        *at = (uintptr_t)block;
    return result;
}

int hf_cuda_unblock(int device, uintptr_t at)
{
    struct hf_cuda_scope scope;
    const int result = hf_cuda_enter(&scope, device);
    if (result != 0)
        return result;
    return hf_cuda_done(&scope, "cuMemFree", scope.call->cuMemFree(at));
}

/* ---- addresses of others ---- */

int hf_cuda_address(const void *ptr, struct hf_cuda_address *out)
{
    const struct hf_cuda_functions *call = hf_cuda_functions();
    const int saved_errno = errno;
    unsigned type = 0, managed = 0;
    int device = -1;
    hf_cu_address start = 0;
    size_t size = 0;
    void *pool = NULL;
    hf_cu_pointer_attribute attributes[] = {
        HF_CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    HF_CU_POINTER_ATTRIBUTE_IS_MANAGED,
        HF_CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, HF_CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        HF_CU_POINTER_ATTRIBUTE_RANGE_SIZE,     HF_CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    };
    void *data[] = {&type, &managed, &device, &start, &size, &pool};
    enum { COUNT = sizeof data / sizeof data[0] };
    *out = (struct hf_cuda_address){.type = HF_CUDA_NONE, .device = -1};
    if (call == NULL)
        return hf_cuda_found() ? -ESHUTDOWN : 0;
    hf_cu_result error = call->cuPointerGetAttributes(COUNT, attributes, data, (uintptr_t)ptr);
    if (error == HF_CU_INVALID_VALUE) /* pools came with CUDA 11.2 */
        error = call->cuPointerGetAttributes(COUNT - 1, attributes, data, (uintptr_t)ptr);
    errno = saved_errno;
    /* Before the process has a context, and for what is no address of CUDA's. */
    if (error == HF_CU_INVALID_CONTEXT || error == HF_CU_INVALID_VALUE)
        return 0;
    if (error != 0)
        return hf_cuda_failed("cuPointerGetAttributes", error);
    if (type != HF_CU_MEMORYTYPE_HOST && type != HF_CU_MEMORYTYPE_DEVICE && managed == 0)
        return 0;
    out->type = managed != 0                      ? HF_CUDA_MANAGED
                : type == HF_CU_MEMORYTYPE_DEVICE ? HF_CUDA_DEVICE
                                                  : HF_CUDA_PINNED;
    out->start = (uintptr_t)start;
    out->size = size;
    out->pool = pool != NULL;
    for (int i = 0; i < call->count; i++)
        if (call->device[i] == device)
            out->device = i;
    return 0;
}
