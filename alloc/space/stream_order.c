/*
 * See stream_order.h.
 */
#include "alloc/space/stream_order.h"

#include "alloc/cuda/cuda.h"

#include <errno.h>
#include <homefree/space.h>

/* What hf_space_alloc() says too where there is nothing to call. */
static int without_device(int error)
{
    return error == -ESHUTDOWN ? -ENODEV : error;
}

int hf_space_order_here(int device, void *before, void *after)
{
    if (device < 0 || after == HF_STREAM_DONE || after == HF_STREAM_ANY)
        return -EINVAL;
    int devices = hf_cuda_find();
    if (devices == 0)
        devices = hf_cuda_devices();
    if (devices < 0)
        return without_device(devices);
    if (device >= devices)
        return -EINVAL;
    if (before == HF_STREAM_DONE || before == after)
        return 0;
    return without_device(before == HF_STREAM_ANY ? hf_cuda_wait(device)
                                                  : hf_cuda_order(device, before, after));
}
