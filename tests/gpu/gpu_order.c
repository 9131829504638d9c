/*
 * Memory that a stream still uses is given to nobody else: a stream writes late, by a kernel that
 * waits first, into a block that was freed long before. Owns nothing.
 */
#include "gpu.h"

#include <string.h>

enum { ROUNDS = 40, LATE = 20 }; /* milliseconds */

#define SIZE (3 * GPU_MIB)

/* Frees a block on `writer`, which writes to it later, and has `other` write to a new one. Both
 * must have what was written to them last. */
static void late_write(cudaStream_t writer, void *freed_on, cudaStream_t other)
{
    void *first = gpu_take(HF_SPACE_DEVICE, SIZE, writer);
    gpu_spin(writer, LATE);
    gpu_cuda(cudaMemsetAsync(first, 0xaa, SIZE, writer));
    gpu_give(first, freed_on);
    void *second = gpu_take(HF_SPACE_DEVICE, SIZE, other);
    gpu_cuda(cudaMemsetAsync(second, 0x55, SIZE, other));
    gpu_cuda(cudaStreamSynchronize(other));
    gpu_cuda(cudaStreamSynchronize(writer));
    gpu_check(gpu_all_bytes(second, SIZE, 0x55));
    gpu_give(second, other);
}

static void *on_stream(cudaStream_t stream)
{
    return stream;
}

static void *on_any(cudaStream_t stream)
{
    (void)stream;
    return HF_STREAM_ANY;
}

static void late_writes(void *(*freed_on)(cudaStream_t stream))
{
    cudaStream_t writer = gpu_stream(), other = gpu_stream();
    for (int i = 0; i < ROUNDS; i++)
        late_write(writer, freed_on(writer), other);
}

static void other_stream_waits(void)
{
    late_writes(on_stream);
}

static void any_stream(void)
{
    late_writes(on_any);
}

/* There is room for one of the blocks, so that the second stream gets the memory of the first. */
static void little_capacity(void *(*freed_on)(cudaStream_t stream))
{
    gpu_equal(hf_space_limit(HF_SPACE_DEVICE, 0, 5 * GPU_MIB), 0);
    late_writes(freed_on);
    gpu_check(gpu_stats(HF_SPACE_DEVICE).reserved_peak <= 5 * GPU_MIB);
}

static void little_capacity_stream(void)
{
    little_capacity(on_stream);
}

static void little_capacity_any(void)
{
    little_capacity(on_any);
}

/* The same stream may have the block again at once, because its work has an order. */
static void same_stream_reuses(void)
{
    cudaStream_t stream = gpu_stream();
    for (int i = 0; i < ROUNDS; i++)
        late_write(stream, stream, stream);
    uint32_t grown = gpu_stats(HF_SPACE_DEVICE).grown;
    for (int i = 0; i < 10 * ROUNDS; i++) {
        void *block = gpu_take(HF_SPACE_DEVICE, SIZE, stream);
        gpu_cuda(cudaMemsetAsync(block, i, SIZE, stream));
        gpu_give(block, stream);
    }
    gpu_equal(gpu_stats(HF_SPACE_DEVICE).grown, grown);
    gpu_cuda(cudaStreamSynchronize(stream));
}

static void used_by_another(void)
{
    cudaStream_t owner = gpu_stream(), user = gpu_stream();
    for (int i = 0; i < ROUNDS; i++) {
        void *first = gpu_take(HF_SPACE_DEVICE, SIZE, owner);
        gpu_equal(hf_space_use(first, user), 0);
        gpu_spin(user, LATE);
        gpu_cuda(cudaMemsetAsync(first, 0xaa, SIZE, user));
        gpu_give(first, owner);
        void *second = gpu_take(HF_SPACE_DEVICE, SIZE, owner);
        gpu_cuda(cudaMemsetAsync(second, 0x55, SIZE, owner));
        gpu_cuda(cudaStreamSynchronize(owner));
        gpu_cuda(cudaStreamSynchronize(user));
        gpu_check(gpu_all_bytes(second, SIZE, 0x55));
        gpu_give(second, owner);
    }
}

/* As many as torch has in its pools of streams, and more. */
static void many_streams(void)
{
    enum { COUNT = 100 };
    cudaStream_t streams[COUNT];
    void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        streams[i] = gpu_stream();
        blocks[i] = gpu_take(HF_SPACE_DEVICE, GPU_MIB, streams[i]);
        gpu_cuda(cudaMemsetAsync(blocks[i], i, GPU_MIB, streams[i]));
    }
    gpu_cuda(cudaDeviceSynchronize());
    for (int i = 0; i < COUNT; i++) {
        gpu_check(gpu_all_bytes(blocks[i], GPU_MIB, (unsigned char)i));
        gpu_give(blocks[i], streams[i]);
    }
}

/* A copy from a pinned block starts late; the block was freed, and others are written meanwhile. */
static void late_copy(void *(*freed_on)(cudaStream_t stream))
{
    cudaStream_t stream = gpu_stream();
    void *device = gpu_take(HF_SPACE_DEVICE, SIZE, stream);
    void *back = gpu_take(HF_SPACE_PINNED, SIZE, NULL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *from = gpu_take(HF_SPACE_PINNED, SIZE, NULL);
        gpu_pattern(from, SIZE, i);
        gpu_spin(stream, LATE);
        gpu_cuda(cudaMemcpyAsync(device, from, SIZE, cudaMemcpyHostToDevice, stream));
        gpu_give(from, freed_on(stream));
        void *next = gpu_take(HF_SPACE_PINNED, SIZE, NULL);
        memset(next, 0, SIZE);
        gpu_cuda(cudaMemcpyAsync(back, device, SIZE, cudaMemcpyDeviceToHost, stream));
        gpu_cuda(cudaStreamSynchronize(stream));
        gpu_check(gpu_has_pattern(back, SIZE, i));
        gpu_give(next, HF_STREAM_DONE);
    }
    gpu_give(device, stream);
    gpu_give(back, stream);
}

static void pinned_waits(void)
{
    late_copy(on_stream);
}

static void pinned_waits_for_any(void)
{
    late_copy(on_any);
}

static void nothing_stays_pending(void)
{
    cudaStream_t streams[8];
    for (int i = 0; i < 8; i++)
        streams[i] = gpu_stream();
    for (int i = 0; i < 400; i++) {
        void *device = gpu_take(HF_SPACE_DEVICE, SIZE, streams[i % 8]);
        void *pinned = gpu_take(HF_SPACE_PINNED, SIZE, NULL);
        gpu_cuda(cudaMemcpyAsync(device, pinned, SIZE, cudaMemcpyHostToDevice, streams[i % 8]));
        gpu_equal(hf_space_use(device, streams[(i + 1) % 8]), 0);
        gpu_give(device, streams[i % 8]);
        gpu_give(pinned, i % 2 != 0 ? (void *)streams[i % 8] : HF_STREAM_ANY);
    }
    gpu_cuda(cudaDeviceSynchronize());
    for (int kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++) {
        gpu_equal(hf_space_trim((enum hf_space_kind)kind, 0, 0, NULL), 0);
        struct hf_space_stats stats = gpu_stats((enum hf_space_kind)kind);
        gpu_equal(stats.pending, 0);
        gpu_equal(stats.leaked, 0);
        gpu_check(stats.reserved_peak <= (uint64_t)400 * SIZE);
    }
}

/* Allocating and freeing on other streams does not break a capture into a graph. */
static void beside_a_capture(void)
{
    cudaStream_t captured = gpu_stream(), other = gpu_stream();
    void *target = gpu_take(HF_SPACE_DEVICE, SIZE, captured);
    void *before = gpu_take(HF_SPACE_DEVICE, SIZE, other);
    cudaGraph_t graph = NULL;
    gpu_cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    gpu_cuda(cudaMemsetAsync(target, 0x11, SIZE, captured));
    gpu_give(before, other);
    void *blocks[10];
    for (int i = 0; i < 10; i++)
        blocks[i] = gpu_take(i % 2 != 0 ? HF_SPACE_DEVICE : HF_SPACE_PINNED, 50 * SIZE, other);
    for (int i = 0; i < 10; i++)
        gpu_give(blocks[i], other);
    gpu_cuda(cudaStreamEndCapture(captured, &graph));
    gpu_check(graph != NULL);
    gpu_cuda(cudaGraphDestroy(graph));
    gpu_give(target, captured);
}

/* hf_space_order(): the second stream's copy finds what the first wrote late. */
static void ordered(void)
{
    cudaStream_t first = gpu_stream(), second = gpu_stream();
    void *block = gpu_take(HF_SPACE_DEVICE, SIZE, first);
    unsigned char *back = gpu_take(HF_SPACE_PINNED, SIZE, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        gpu_spin(first, LATE);
        gpu_cuda(cudaMemsetAsync(block, i, SIZE, first));
        gpu_equal(hf_space_order(0, first, second), 0);
        gpu_cuda(cudaMemcpyAsync(back, block, SIZE, cudaMemcpyDeviceToHost, second));
        gpu_cuda(cudaStreamSynchronize(second));
        for (size_t at = 0; at < SIZE; at++)
            gpu_check(back[at] == (unsigned char)i);
    }
    gpu_equal(hf_space_use(block, second), 0);
    gpu_give(block, first);
    gpu_give(back, second);
}

const struct gpu_case gpu_order[] = {
    {"another stream waits for a late write", other_stream_waits, false},
    {"another stream gets the memory after a late write", little_capacity_stream, false},
    {"the same, freed for any stream", little_capacity_any, false},
    {"many streams", many_streams, false},
    {"freed for any stream, after a late write", any_stream, false},
    {"the same stream has its memory at once", same_stream_reuses, false},
    {"a block that another stream uses", used_by_another, false},
    {"a pinned block with a late copy", pinned_waits, false},
    {"a pinned block, freed for any stream", pinned_waits_for_any, false},
    {"nothing stays pending", nothing_stays_pending, false},
    {"beside a capture", beside_a_capture, false},
    {"one stream waits for another", ordered, false},
    {NULL, NULL, false},
};
