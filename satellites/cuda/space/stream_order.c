/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See stream_order.h.
 */
#include "satellites/cuda/space/stream_order.h"

#include "satellites/cuda/driver/cuda.h"

#include <errno.h>
#include <homefree/space.h>

/* A stream may be wrong. */
static int public(int error)
{
    return error == -EINVAL ? error : hf_cuda_public(error);
}

int hf_spaces_order(int device, void *before, void *after)
{
    if (device < 0 || after == HF_STREAM_DONE || after == HF_STREAM_ANY)
        return -EINVAL;
    int devices = hf_cuda_find();
    if (devices == 0)
        devices = hf_cuda_devices();
    if (devices < 0)
        return public(devices);
    if (device >= devices)
        return -EINVAL;
    if (before == HF_STREAM_DONE || before == after)
        return 0;
    return public(before == HF_STREAM_ANY ? hf_cuda_wait(device)
                                          : hf_cuda_order(device, before, after));
}
