/*
 * See stream_order.h.
 */
#include "alloc/space/stream_order.h"

#include <errno.h>
#include <homefree/space.h>

int hf_space_order_here(int device, void *before, void *after)
{
    if (device < 0 || after == HF_STREAM_DONE || after == HF_STREAM_ANY)
        return -EINVAL;
    return before == HF_STREAM_DONE ? 0 : -ENODEV;
}
