/*
 * The seam to CUDA in builds without it (-Dcuda=disabled): there is no runtime, and never will be.
 * Owns nothing, takes no lock. See cuda.h.
 */
#include "alloc/cuda/cuda.h"

#include <errno.h>
#include <string.h>

int hf_cuda_public(int error)
{
    return error;
}

int hf_cuda_find(void)
{
    return -ENODEV;
}

bool hf_cuda_found(void)
{
    return false;
}

void hf_cuda_reason(char *text, size_t size)
{
    static const char reason[] = "homefree was built without CUDA (-Dcuda=disabled)";
    if (size == 0)
        return;
    const size_t length = strnlen(reason, size - 1);
    memcpy(text, reason, length);
    text[length] = '\0';
}

int hf_cuda_devices(void)
{
    return -ENODEV;
}

int hf_cuda_current(void)
{
    return 0;
}

bool hf_cuda_has_context(int device)
{
    (void)device;
    return false;
}

int hf_cuda_memory(int device, uint64_t *free, uint64_t *total)
{
    (void)device, (void)free, (void)total;
    return -ENODEV;
}

int hf_cuda_lock(void *at, size_t size)
{
    (void)at, (void)size;
    return -ENODEV;
}

int hf_cuda_unlock(void *at)
{
    (void)at;
    return -ENODEV;
}

int hf_cuda_can_map(int device)
{
    (void)device;
    return -ENODEV;
}

int hf_cuda_granularity(int device, size_t *granularity)
{
    (void)device, (void)granularity;
    return -ENODEV;
}

int hf_cuda_reserve(int device, size_t size, size_t alignment, uintptr_t *at)
{
    (void)device, (void)size, (void)alignment, (void)at;
    return -ENODEV;
}

int hf_cuda_unreserve(int device, uintptr_t at, size_t size)
{
    (void)device, (void)at, (void)size;
    return -ENODEV;
}

int hf_cuda_map(int device, uintptr_t at, size_t size)
{
    (void)device, (void)at, (void)size;
    return -ENODEV;
}

int hf_cuda_unmap(int device, uintptr_t at, size_t size)
{
    (void)device, (void)at, (void)size;
    return -ENODEV;
}

int hf_cuda_block(int device, size_t size, uintptr_t *at)
{
    (void)device, (void)size, (void)at;
    return -ENODEV;
}

int hf_cuda_unblock(int device, uintptr_t at)
{
    (void)device, (void)at;
    return -ENODEV;
}

bool hf_cuda_is_elsewhere(int device, void *stream)
{
    (void)device, (void)stream;
    return true;
}

bool hf_cuda_is_capturing(int device, void *stream)
{
    (void)device, (void)stream;
    return false;
}

int hf_cuda_mark(int device, void *stream, struct hf_cuda_event **out)
{
    (void)device, (void)stream, (void)out;
    return -ENODEV;
}

int hf_cuda_is_done(struct hf_cuda_event *event)
{
    (void)event;
    return -ENODEV;
}

int hf_cuda_order(int device, void *before, void *after)
{
    (void)device, (void)before, (void)after;
    return -ENODEV;
}

int hf_cuda_await(struct hf_cuda_event *event)
{
    (void)event;
    return -ENODEV;
}

void hf_cuda_drop(struct hf_cuda_event *event)
{
    (void)event;
}

int hf_cuda_wait(int device)
{
    (void)device;
    return -ENODEV;
}

int hf_cuda_address(const void *ptr, struct hf_cuda_address *out)
{
    (void)ptr;
    *out = (struct hf_cuda_address){.type = HF_CUDA_NONE, .device = -1};
    return 0;
}

int hf_cuda_take_driver(void)
{
    return -ENODEV;
}

int hf_cuda_here(void **context)
{
    *context = NULL;
    return -1;
}

int hf_cuda_device_of(const void *ptr)
{
    (void)ptr;
    return -1;
}

int hf_cuda_release(void *release, void *ptr, void *context, bool idle)
{
    (void)release, (void)ptr, (void)context, (void)idle;
    return -ENODEV;
}

void hf_cuda_forbid(void)
{
}
