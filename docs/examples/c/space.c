/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/space.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* The heap is a space, too: the same code serves the host and devices. */
static void host(void)
{
    void *block = NULL;
    int error = hf_space_alloc(&block, HF_SPACE_HOST, 0, 1000, 0, NULL);
    assert(error == 0);
    struct hf_space space = {.size = sizeof space};
    error = hf_space_of(block, &space);
    assert(error == 0 && space.kind == HF_SPACE_HOST && space.block == block);
    error = hf_space_free(block, HF_STREAM_DONE);
    assert(error == 0);
}

/* Page-locked memory for batches, at most 1 GiB of it. */
static int pinned(void)
{
    int error = hf_space_limit(HF_SPACE_PINNED, 0, 1 << 30);
    void *batch = NULL;
    if (error == 0)
        error = hf_space_alloc(&batch, HF_SPACE_PINNED, 0, 1 << 20, 0, NULL);
    if (error != 0) {
        char reason[200];
        if (hf_space_reason(HF_SPACE_PINNED, 0, reason, sizeof reason) == 0)
            fprintf(stderr, "no page-locked memory: %s\n", reason);
        return error;
    }
    struct hf_space_stats stats = {.size = sizeof stats};
    error = hf_space_stats(HF_SPACE_PINNED, 0, HF_STREAM_ANY, &stats);
    assert(error == 0 && stats.allocated >= 1 << 20 && stats.limit == 1 << 30);
    hf_space_free(batch, HF_STREAM_ANY); /* once every stream is done with it */
    uint64_t released = 0;
    error = hf_space_trim(HF_SPACE_PINNED, 0, 0, &released);
    printf("%" PRIu64 " bytes unlocked\n", released);
    return error;
}

/* A block of a device: made for one stream, and used by another one after it. */
static int device(void *first, void *second)
{
    void *block = NULL;
    int error = hf_space_alloc(&block, HF_SPACE_DEVICE, 0, 1 << 20, 0, first);
    if (error != 0)
        return error;
    /* work on `first` is queued here */
    error = hf_space_order(0, first, second);
    if (error == 0)
        error = hf_space_use(block, second);
    /* and work on `second` here */
    hf_space_free(block, first);
    return error;
}

int main(void)
{
    host();
    int without = pinned(), device_without = device(NULL, NULL);
    return (without == 0 || without == -ENODEV) &&
                   (device_without == 0 || device_without == -ENODEV)
               ? 0
               : 1;
}
