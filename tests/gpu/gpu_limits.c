/*
 * The bounds of a space on a real device: limits, a full device, memory that goes back to the
 * driver. Owns nothing.
 */
#include "gpu.h"

#include <errno.h>
#include <stdlib.h>

static size_t driver_free(void)
{
    size_t free = 0, total = 0;
    gpu_cuda(cudaMemGetInfo(&free, &total));
    return free;
}

static size_t driver_total(void)
{
    size_t free = 0, total = 0;
    gpu_cuda(cudaMemGetInfo(&free, &total));
    return total;
}

static void trimmed(void)
{
    for (int number = HF_SPACE_PINNED; number <= HF_SPACE_DEVICE; number++) {
        enum hf_space_kind kind = (enum hf_space_kind)number;
        gpu_give(gpu_take(kind, 1, NULL), HF_STREAM_DONE); /* the driver's own needs */
        gpu_equal(hf_space_trim(kind, 0, 0, NULL), 0);
        size_t before = driver_free();
        enum { COUNT = 16 };
        void *blocks[COUNT];
        for (int i = 0; i < COUNT; i++)
            blocks[i] = gpu_take(kind, 16 * GPU_MIB, NULL);
        gpu_check(gpu_stats(kind).reserved >= COUNT * (16 * GPU_MIB));
        gpu_check(gpu_stats(kind).allocated >= COUNT * (16 * GPU_MIB));
        if (kind == HF_SPACE_DEVICE)
            gpu_check(driver_free() <= before - COUNT * (16 * GPU_MIB));
        for (int i = 0; i < COUNT; i++)
            gpu_give(blocks[i], NULL);
        uint64_t released = 0;
        gpu_equal(hf_space_trim(kind, 0, 0, &released), 0);
        gpu_check(released >= COUNT * (16 * GPU_MIB));
        gpu_check(gpu_stats(kind).reserved <= 32 * GPU_MIB);
        if (kind == HF_SPACE_DEVICE)
            gpu_check(driver_free() + 64 * GPU_MIB >= before);
        void *again = gpu_take(kind, 16 * GPU_MIB, NULL);
        gpu_give(again, HF_STREAM_DONE);
    }
}

static void limited(void)
{
    for (int number = HF_SPACE_PINNED; number <= HF_SPACE_DEVICE; number++) {
        enum hf_space_kind kind = (enum hf_space_kind)number;
        void *blocks[8], *out = NULL;
        int count = 0;
        gpu_equal(hf_space_limit(kind, 0, 256 * GPU_MIB), 0);
        while (count < 8 && hf_space_alloc(&blocks[count], kind, 0, 64 * GPU_MIB, 0, NULL) == 0)
            count++;
        gpu_check(count >= 3 && count <= 4);
        gpu_check(gpu_stats(kind).reserved <= 256 * GPU_MIB);
        gpu_equal(hf_space_alloc(&out, kind, 0, 300 * GPU_MIB, 0, NULL), -ENOMEM);
        gpu_equal(cudaGetLastError(), cudaSuccess);
        gpu_equal(hf_space_limit(kind, 0, 0), 0);
        gpu_equal(hf_space_alloc(&out, kind, 0, 300 * GPU_MIB, 0, NULL), 0);
        gpu_give(out, NULL);
        while (count > 0)
            gpu_give(blocks[--count], NULL);
    }
}

/* The device is filled, in pieces that differ in size; then all goes back, and it is filled again.
 */
static void full(void)
{
    size_t piece = driver_total() / 64;
    void *blocks[256];
    int first = 0;
    for (int round = 0; round < 2; round++) {
        int count = 0;
        int error = 0;
        while (error == 0 && count < 256) {
            size_t size = piece + (size_t)(count % 3) * (piece / 7 & ~(size_t)511);
            error = hf_space_alloc(&blocks[count], HF_SPACE_DEVICE, 0, size, 0, NULL);
            count += error == 0;
        }
        gpu_equal(error, -ENOMEM);
        gpu_equal(cudaGetLastError(), cudaSuccess);
        gpu_check(count > 32);
        gpu_check(round == 0 || count >= first - 2);
        first = count;
        void *out = NULL;
        gpu_equal(hf_space_alloc(&out, HF_SPACE_DEVICE, 0, 2 * driver_total(), 0, NULL), -ENOMEM);
        gpu_equal(hf_space_alloc(&out, HF_SPACE_DEVICE, 0, (size_t)-1, 0, NULL), -ENOMEM);
        while (count > 0)
            gpu_give(blocks[--count], NULL);
    }
    gpu_give(gpu_take(HF_SPACE_DEVICE, piece, NULL), NULL);
}

/* What is full for homefree is given back to whoever else asks the driver. */
static void others_can_have_it(void)
{
    size_t size = driver_total() / 2;
    void *ours = gpu_take(HF_SPACE_DEVICE, size, NULL), *theirs = NULL;
    gpu_give(ours, HF_STREAM_DONE);
    gpu_equal(hf_space_trim(HF_SPACE_DEVICE, 0, 0, NULL), 0);
    gpu_cuda(cudaMalloc(&theirs, size));
    gpu_cuda(cudaFree(theirs));
}

/* Random sizes for a while: what is reserved stays near to what is used. */
static void fragmented(void)
{
    enum { SLOTS = 200, STEPS = 20000 };
    void *slots[SLOTS] = {0};
    size_t sizes[SLOTS] = {0}, now = 0, peak = 0;
    unsigned long long random = 42;
    for (int i = 0; i < STEPS; i++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        size_t slot = (random >> 33) % SLOTS;
        if (slots[slot] != NULL)
            gpu_give(slots[slot], NULL);
        now -= sizes[slot];
        sizes[slot] = (size_t)512 << (random >> 45) % 13;
        sizes[slot] += (random >> 50) % sizes[slot];
        now += sizes[slot];
        peak = now > peak ? now : peak;
        slots[slot] = gpu_take(HF_SPACE_DEVICE, sizes[slot], NULL);
    }
    gpu_check(gpu_stats(HF_SPACE_DEVICE).reserved_peak <= 2 * peak + 64 * GPU_MIB);
    for (size_t i = 0; i < SLOTS; i++)
        gpu_give(slots[i], NULL);
}

const struct gpu_case gpu_limits[] = {
    {"unused memory goes back to the driver", trimmed, false},
    {"a limit", limited, false},
    {"a full device", full, false},
    {"others have what is given back", others_can_have_it, false},
    {"random sizes", fragmented, false},
    {NULL, NULL, false},
};
