/*
 * See stream_order.h.
 */
#include "alloc/space/stream_order.h"

#include "alloc/cuda/cuda.h"

#include <errno.h>
#include <homefree/space.h>

int hf_space_order_here(int device, void *before, void *after)
{
    if (device < 0 || after == HF_STREAM_DONE || after == HF_STREAM_ANY)
        return -EINVAL;
    if (before == HF_STREAM_DONE)
        return 0;
    int error = hf_cuda_find();
    if (error == 0)
        error =
            before == HF_STREAM_ANY ? hf_cuda_wait(device) : hf_cuda_order(device, before, after);
    return error == -ESHUTDOWN ? -ENODEV : error;
}
