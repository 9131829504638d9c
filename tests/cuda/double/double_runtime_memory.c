/*
 * The double of CUDA: the functions of libcudart.so.13 for memory. See runtime.h.
 */
#include "api.h"
#include "runtime.h"

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMemGetInfo",
                              (*total = double_device[context_->device].memory,
                               *free = *total - double_device[context_->device].used, 0));
}

/* ---- the host's memory ---- */

static int lock_host(void *at, size_t size, unsigned flags)
{
    const int error = double_unsafe();
    return error != 0 ? error : double_register(at, size, flags);
}

cudaError_t cudaHostRegister(void *at, size_t size, unsigned flags)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaHostRegister", lock_host(at, size, flags));
}

static int unlock_host(void *at)
{
    const int error = double_unsafe();
    return error != 0 ? error : double_unregister(at);
}

cudaError_t cudaHostUnregister(void *at)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaHostUnregister", unlock_host(at));
}

static int flags_of(unsigned *flags, void *host)
{
    const struct double_range *range = double_range_of((uintptr_t)host);
    if (range == NULL || range->physical != NULL)
        return INVALID_VALUE;
    *flags = range->flags;
    return 0;
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *host)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaHostGetFlags", flags_of(flags, host));
}

static int allocate_host(void **out, size_t size, unsigned flags)
{
    const int error = double_unsafe();
    *out = NULL;
    if (error != 0 || size == 0)
        return error;
    return double_host_allocate(out, size, flags);
}

cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaHostAlloc", allocate_host(out, size, flags));
}

cudaError_t cudaMallocHost(void **out, size_t size)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMallocHost", allocate_host(out, size, 0));
}

static int device_pointer(void **out, void *host)
{
    const struct double_range *range = double_range_of((uintptr_t)host);
    *out = host;
    return range != NULL && range->physical == NULL ? 0 : INVALID_VALUE;
}

cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    (void)flags;
    DOUBLE_RUNTIME_IN_CONTEXT("cudaHostGetDevicePointer", device_pointer(out, host));
}

/* Waits for all devices. */
static int free_host(void *ptr)
{
    int error = ptr == NULL ? 0 : double_unsafe();
    if (error != 0 || ptr == NULL)
        return error;
    double_finish_context(NULL);
    return double_host_free(ptr);
}

cudaError_t cudaFreeHost(void *ptr)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaFreeHost", free_host(ptr));
}

/* ---- devices' memory ---- */

static int allocate(struct double_context *context, void **out, size_t size, enum double_kind kind)
{
    uintptr_t at = 0;
    int error = kind == POOLED ? 0 : double_unsafe();
    if (error == 0)
        *out = NULL;
    if (error == 0 && size > 0)
        error = double_allocate(&at, size, context->device, kind);
    if (error == 0)
        *out = (void *)at;
    return error;
}

cudaError_t cudaMalloc(void **out, size_t size)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMalloc", allocate(context_, out, size, BLOCK));
}

static int allocate_pitch(struct double_context *context, void **out, size_t *pitch, size_t width,
                          size_t height)
{
    enum { PITCH = 512 };
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return allocate(context, out, *pitch * height, BLOCK);
}

cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMallocPitch",
                              allocate_pitch(context_, out, pitch, width, height));
}

cudaError_t cudaMallocManaged(void **out, size_t size, unsigned flags)
{
    (void)flags;
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMallocManaged",
                              size == 0 ? INVALID_VALUE : allocate(context_, out, size, MANAGED));
}

/* Waits for the work of the block's device, unless the block is of a pool. */
static int free_block(void *ptr)
{
    const struct double_range *range = double_range_of((uintptr_t)ptr);
    int error = ptr == NULL ? 0 : double_unsafe();
    if (error != 0 || ptr == NULL)
        return error;
    if (range != NULL && range->device >= 0 && range->kind != POOLED)
        double_finish_context(&double_device[range->device].primary);
    return double_free((uintptr_t)ptr);
}

cudaError_t cudaFree(void *ptr)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaFree", free_block(ptr));
}

static int allocate_async(void **out, size_t size, cudaStream_t handle)
{
    struct double_stream *stream;
    int error = double_stream_of(handle, &stream);
    if (error == 0)
        error = double_uses(stream);
    return error != 0 ? error : allocate(stream->context, out, size, POOLED);
}

cudaError_t cudaMallocAsync(void **out, size_t size, cudaStream_t stream)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMallocAsync", allocate_async(out, size, stream));
}

static int free_async(void *ptr, cudaStream_t handle)
{
    struct double_stream *stream;
    struct double_range *range = double_range_of((uintptr_t)ptr);
    int error = double_stream_of(handle, &stream);
    if (error != 0 || ptr == NULL)
        return error;
    if (range == NULL || range->start != (uintptr_t)ptr || range->kind != POOLED || range->is_freed)
        return INVALID_VALUE;
    error = double_enqueue_free(stream, (uintptr_t)ptr);
    range->is_freed = error == 0;
    return error;
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    DOUBLE_RUNTIME_IN_CONTEXT("cudaFreeAsync", free_async(ptr, stream));
}

static int describe(struct cudaPointerAttributes *out, const void *ptr)
{
    const struct double_range *range = double_range_of((uintptr_t)ptr);
    void *const at = (void *)(uintptr_t)ptr;
    out->type = cudaMemoryTypeUnregistered;
    out->device = -2;
    out->devicePointer = out->hostPointer = NULL;
    if (range == NULL) {
        out->hostPointer = at;
        return 0;
    }
    const bool on_device = range->physical != NULL;
    out->type = range->kind == MANAGED ? cudaMemoryTypeManaged
                : on_device            ? cudaMemoryTypeDevice
                                       : cudaMemoryTypeHost;
    out->device = on_device ? range->device : 0;
    out->devicePointer = at;
    if (!on_device || range->kind == MANAGED)
        out->hostPointer = at;
    return 0;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *ptr)
{
    DOUBLE_RUNTIME("cudaPointerGetAttributes", describe(out, ptr));
}

/* ---- copies and fills ---- */

/* The kind of a copy is found out, as with cudaMemcpyDefault. */
static struct double_copy copy_of(void *to, const void *from, size_t size)
{
    return (struct double_copy){
        .to = (uintptr_t)to, .from = (uintptr_t)from, .size = size, .value = -1};
}

static struct double_copy fill_of(void *to, int value, size_t size)
{
    return (struct double_copy){.to = (uintptr_t)to, .size = size, .value = value & 0xff};
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, int kind)
{
    const struct double_copy copy = copy_of(to, from, size);
    (void)kind;
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMemcpy", size == 0 ? 0 : double_copy_now(&copy, NULL));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, cudaStream_t stream)
{
    const struct double_copy copy = copy_of(to, from, size);
    (void)kind;
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMemcpyAsync", size == 0 ? 0 : double_copy_async(&copy, stream));
}

cudaError_t cudaMemset(void *to, int value, size_t size)
{
    const struct double_copy copy = fill_of(to, value, size);
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMemset", size == 0 ? 0 : double_copy_now(&copy, NULL));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream)
{
    const struct double_copy copy = fill_of(to, value, size);
    DOUBLE_RUNTIME_IN_CONTEXT("cudaMemsetAsync", size == 0 ? 0 : double_copy_async(&copy, stream));
}
