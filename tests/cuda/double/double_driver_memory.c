/*
 * The double of CUDA: the functions of libcuda.so.1 for memory. See double.h.
 */
#include "api.h"
#include "double.h"

enum {
    PINNED_TYPE = 1,
    DEVICE_LOCATION = 1,
    READ_WRITE = 3,
    HOST_MEMORY = 1,
    DEVICE_MEMORY = 2,
    OF_CONTEXT = 1,
    OF_TYPE = 2,
    OF_DEVICE_POINTER = 3,
    OF_HOST_POINTER = 4,
    OF_MANAGED = 8,
    OF_ORDINAL = 9,
    OF_START = 11,
    OF_SIZE = 12,
    OF_MAPPED = 13,
    OF_POOL = 17,
};

static int memory_of_current(size_t *free, size_t *total)
{
    struct double_context *context;
    const int error = double_current(&context);
    if (error != 0)
        return error;
    const struct double_device *device = &double_device[context->device];
    *total = device->memory;
    *free = device->memory > device->used ? device->memory - device->used : 0;
    return 0;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    DOUBLE_CALL("cuMemGetInfo", "cudaMemGetInfo", memory_of_current(free, total));
}

/* ---- the host's memory ---- */

/* What needs a context, and may synchronise. */
static int begin_unsafe(void)
{
    struct double_context *context;
    const int error = double_current(&context);
    return error != 0 ? error : double_unsafe();
}

static int lock_host(void *at, size_t size, unsigned flags)
{
    const int error = begin_unsafe();
    return error != 0 ? error : double_register(at, size, flags);
}

CUresult cuMemHostRegister_v2(void *at, size_t size, unsigned flags)
{
    DOUBLE_CALL("cuMemHostRegister", "cudaHostRegister", lock_host(at, size, flags));
}

static int unlock_host(void *at)
{
    const int error = begin_unsafe();
    return error != 0 ? error : double_unregister(at);
}

CUresult cuMemHostUnregister(void *at)
{
    DOUBLE_CALL("cuMemHostUnregister", "cudaHostUnregister", unlock_host(at));
}

static int allocate_host(void **out, size_t size, unsigned flags)
{
    const int error = begin_unsafe();
    return error != 0 ? error : double_host_allocate(out, size, flags);
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    DOUBLE_CALL("cuMemHostAlloc", "cudaHostAlloc", allocate_host(out, size, flags));
}

CUresult cuMemAllocHost_v2(void **out, size_t size)
{
    DOUBLE_CALL("cuMemAllocHost", "cudaMallocHost", allocate_host(out, size, 0));
}

/* Waits for all devices. */
static int free_host(void *ptr)
{
    const int error = begin_unsafe();
    if (error != 0)
        return error;
    double_finish_context(NULL);
    return double_host_free(ptr);
}

CUresult cuMemFreeHost(void *ptr)
{
    DOUBLE_CALL("cuMemFreeHost", "cudaFreeHost", free_host(ptr));
}

/* ---- blocks ---- */

static int allocate(CUdeviceptr *out, size_t size, enum double_kind kind)
{
    struct double_context *context;
    uintptr_t at = 0;
    int error = double_current(&context);
    if (error == 0)
        error = double_unsafe();
    if (error == 0)
        error = double_allocate(&at, size, context->device, kind);
    if (error == 0)
        *out = at;
    return error;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t size)
{
    DOUBLE_CALL("cuMemAlloc", "cudaMalloc", allocate(at, size, BLOCK));
}

CUresult cuMemAllocManaged(CUdeviceptr *at, size_t size, unsigned flags)
{
    (void)flags;
    DOUBLE_CALL("cuMemAllocManaged", "cudaMallocManaged", allocate(at, size, MANAGED));
}

/* Waits for the work of the block's device, unless the block is of a pool. */
static int free_block(uintptr_t at)
{
    const struct double_range *range = double_range_of(at);
    int error = begin_unsafe();
    if (error == 0 && range != NULL && range->device >= 0 && range->kind != POOLED)
        double_finish_context(&double_device[range->device].primary);
    return error != 0 ? error : double_free(at);
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
    DOUBLE_CALL("cuMemFree", "cudaFree", free_block(at));
}

/* ---- mapping ---- */

static int device_of(const struct double_property *property)
{
    if (property->type != PINNED_TYPE || property->location.type != DEVICE_LOCATION ||
        property->location.id < 0 || property->location.id >= double_device_count)
        return -1;
    return property->location.id;
}

static int granularity_for(const struct double_property *property, size_t *out)
{
    const int device = device_of(property);
    if (device < 0)
        return INVALID_VALUE;
    *out = GRANULE;
    return double_device[device].cannot_map ? NOT_SUPPORTED : 0;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const struct double_property *property,
                                       int which)
{
    DOUBLE_CALL("cuMemGetAllocationGranularity", NULL, (void)which,
                granularity_for(property, granularity));
}

static int reserve(CUdeviceptr *out, size_t size, size_t alignment, unsigned long long flags)
{
    uintptr_t at = 0;
    const int error = flags != 0 ? INVALID_VALUE : double_reserve(&at, size, alignment);
    if (error == 0)
        *out = at;
    return error;
}

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    DOUBLE_CALL("cuMemAddressReserve", NULL, (void)hint, reserve(at, size, alignment, flags));
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t size)
{
    DOUBLE_CALL("cuMemAddressFree", NULL, double_unreserve(at, size));
}

static int create(CUmemHandle *out, size_t size, const struct double_property *property)
{
    struct double_physical *physical = NULL;
    const int device = device_of(property);
    int error = device < 0 ? INVALID_VALUE : double_unsafe();
    if (error == 0 && double_device[device].cannot_map)
        error = NOT_SUPPORTED;
    if (error == 0)
        error = double_create(&physical, device, size);
    if (error == 0)
        *out = (uintptr_t)physical;
    return error;
}

CUresult cuMemCreate(CUmemHandle *handle, size_t size, const struct double_property *property,
                     unsigned long long flags)
{
    DOUBLE_CALL("cuMemCreate", NULL, flags != 0 ? INVALID_VALUE : create(handle, size, property));
}

static int release(CUmemHandle handle)
{
    struct double_physical *physical = double_physical_of(handle);
    return physical == NULL ? INVALID_VALUE : double_release(physical);
}

CUresult cuMemRelease(CUmemHandle handle)
{
    DOUBLE_CALL("cuMemRelease", NULL, release(handle));
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemHandle handle,
                  unsigned long long flags)
{
    DOUBLE_CALL("cuMemMap", NULL,
                flags != 0 ? INVALID_VALUE
                           : double_map(at, size, offset, double_physical_of(handle)));
}

static int unmap(uintptr_t at, size_t size)
{
    const int error = double_unsafe();
    return error != 0 ? error : double_unmap(at, size);
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
    DOUBLE_CALL("cuMemUnmap", NULL, unmap(at, size));
}

static int set_access(uintptr_t at, size_t size, const struct double_access *access, size_t count)
{
    int error = count == 0 ? INVALID_VALUE : 0;
    for (size_t i = 0; error == 0 && i < count; i++)
        error = access[i].flags != READ_WRITE || access[i].location.type != DEVICE_LOCATION
                    ? INVALID_VALUE
                    : double_set_access(at, size, access[i].location.id);
    return error;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const struct double_access *access,
                        size_t count)
{
    DOUBLE_CALL("cuMemSetAccess", NULL, set_access(at, size, access, count));
}

/* ---- addresses ---- */

static int range_at(CUdeviceptr at, CUdeviceptr *start, size_t *size)
{
    const struct double_range *range = double_range_of(at);
    if (range == NULL || range->physical == NULL)
        return INVALID_VALUE;
    *start = range->start;
    *size = range->size;
    return 0;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr at)
{
    DOUBLE_CALL("cuMemGetAddressRange", NULL, range_at(at, start, size));
}

/* Zeros where nothing is known. */
static int attribute(int which, void *out, uintptr_t at, const struct double_range *range)
{
    const bool on_device = range != NULL && range->physical != NULL;
    switch (which) {
    case OF_TYPE:
        *(unsigned *)out = range == NULL ? 0 : on_device ? DEVICE_MEMORY : HOST_MEMORY;
        return 0;
    case OF_MANAGED:
        *(unsigned *)out = range != NULL && range->kind == MANAGED;
        return 0;
    case OF_ORDINAL:
        *(int *)out = on_device ? range->device : range != NULL ? 0 : -2;
        return 0;
    case OF_CONTEXT:
        *(void **)out = on_device && range->kind != MAPPED && range->kind != POOLED
                            ? &double_device[range->device].primary
                            : NULL;
        return 0;
    case OF_DEVICE_POINTER:
        *(uintptr_t *)out = range != NULL ? at : 0;
        return 0;
    case OF_HOST_POINTER:
        *(uintptr_t *)out = range != NULL && (!on_device || range->kind == MANAGED) ? at : 0;
        return 0;
    case OF_START:
        *(uintptr_t *)out = range != NULL ? range->start : 0;
        return 0;
    case OF_SIZE:
        *(size_t *)out = range != NULL ? range->size : 0;
        return 0;
    case OF_MAPPED:
        *(unsigned *)out = range != NULL;
        return 0;
    case OF_POOL:
        *(void **)out =
            range != NULL && range->kind == POOLED ? &double_device[range->device] : NULL;
        return 0;
    default:
        return INVALID_VALUE;
    }
}

static int attributes_of(unsigned count, const int *attributes, void *const *data, uintptr_t at)
{
    const struct double_range *range = double_range_of(at);
    int error = 0;
    for (unsigned i = 0; error == 0 && i < count; i++)
        error = attribute(attributes[i], data[i], at, range);
    return error;
}

CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr at)
{
    DOUBLE_CALL("cuPointerGetAttributes", "cudaPointerGetAttributes",
                attributes_of(count, attributes, data, at));
}
