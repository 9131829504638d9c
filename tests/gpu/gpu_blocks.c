/*
 * Blocks of each space on a real device: where they lie, that copies and kernels reach them, and
 * what homefree and CUDA say of them. Owns nothing.
 */
#include "gpu.h"

#include <errno.h>
#include <string.h>

static const size_t sizes[] = {1, 255, 256, 4096, 100000, 1 << 20, (2 << 20) + 1, 100 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_blocks(enum hf_space_kind kind, int device)
{
    void *blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = gpu_take(kind, sizes[i], NULL);
        gpu_equal((uintptr_t)blocks[i] % 256, 0);
        struct hf_space space = gpu_space_of((char *)blocks[i] + sizes[i] - 1);
        gpu_equal(space.kind, kind);
        gpu_equal(space.device, device);
        gpu_check(space.block == blocks[i]);
        gpu_check(space.block_size >= sizes[i]);
        for (size_t other = 0; other < i; other++)
            gpu_check((char *)blocks[other] + sizes[other] <= (char *)blocks[i] ||
                      (char *)blocks[i] + sizes[i] <= (char *)blocks[other]);
    }
    for (size_t i = 0; i < SIZES; i++) {
        gpu_equal(hf_space_free((char *)blocks[i] + 64, HF_STREAM_DONE), -EINVAL);
        gpu_give(blocks[i], HF_STREAM_DONE);
    }
}

static void pinned_blocks(void)
{
    check_blocks(HF_SPACE_PINNED, -1);
}

static void device_blocks(void)
{
    check_blocks(HF_SPACE_DEVICE, 0);
}

static void alignments(void)
{
    for (size_t alignment = 1; alignment <= 2 * GPU_MIB; alignment *= 2)
        for (int kind = HF_SPACE_PINNED; kind <= HF_SPACE_DEVICE; kind++) {
            void *out = NULL;
            gpu_equal(hf_space_alloc(&out, (enum hf_space_kind)kind, 0, 1000, alignment, NULL), 0);
            gpu_equal((uintptr_t)out % alignment, 0);
            gpu_give(out, HF_STREAM_DONE);
        }
    void *out = NULL;
    gpu_equal(hf_space_alloc(&out, HF_SPACE_DEVICE, 0, 1, 3, NULL), -EINVAL);
    int error = hf_space_alloc(&out, HF_SPACE_DEVICE, 999, 1, 0, NULL);
    gpu_check(error == -EINVAL || error == -ENODEV);
    gpu_check(out == NULL);
}

/* To the device and back, through two pinned blocks. */
static void copies(void)
{
    cudaStream_t stream = gpu_stream();
    for (size_t i = 0; i < SIZES; i++) {
        size_t size = sizes[i] <= 8 * GPU_MIB ? sizes[i] : 8 * GPU_MIB;
        void *from = gpu_take(HF_SPACE_PINNED, size, NULL);
        void *device = gpu_take(HF_SPACE_DEVICE, size, stream);
        void *back = gpu_take(HF_SPACE_PINNED, size, NULL);
        gpu_pattern(from, size, (unsigned)i);
        memset(back, 0, size);
        gpu_cuda(cudaMemcpyAsync(device, from, size, cudaMemcpyHostToDevice, stream));
        gpu_cuda(cudaMemcpyAsync(back, device, size, cudaMemcpyDeviceToHost, stream));
        gpu_cuda(cudaStreamSynchronize(stream));
        gpu_check(gpu_has_pattern(back, size, (unsigned)i));
        gpu_give(from, stream);
        gpu_give(device, stream);
        gpu_give(back, stream);
    }
    gpu_cuda(cudaStreamDestroy(stream));
}

static void kernels(void)
{
    cudaStream_t stream = gpu_stream();
    size_t size = 3 * GPU_MIB + 5;
    unsigned char *pinned = gpu_take(HF_SPACE_PINNED, size, NULL);
    void *device = gpu_take(HF_SPACE_DEVICE, size, stream);
    gpu_fill(pinned, size, 0x3c, stream); /* the device writes to the host's memory */
    gpu_fill(device, size, 0xc3, stream);
    gpu_cuda(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < size; i++)
        gpu_check(pinned[i] == 0x3c);
    gpu_check(gpu_all_bytes(device, size, 0xc3));
    gpu_give(pinned, stream);
    gpu_give(device, stream);
}

/* What CUDA says of our memory, and we of its. */
static void owners(void)
{
    struct cudaPointerAttributes seen;
    struct hf_owner owner = {.size = sizeof owner};
    void *pinned = gpu_take(HF_SPACE_PINNED, 5000, NULL);
    void *device = gpu_take(HF_SPACE_DEVICE, 5000, NULL);
    gpu_cuda(cudaPointerGetAttributes(&seen, pinned));
    gpu_equal(seen.type, cudaMemoryTypeHost);
    gpu_cuda(cudaPointerGetAttributes(&seen, device));
    gpu_equal(seen.type, cudaMemoryTypeDevice);
    gpu_equal(seen.device, 0);
    gpu_equal(hf_owner_of(pinned, &owner), 0);
    gpu_equal(owner.kind, HF_OWNER_PINNED);
    gpu_check(owner.block == pinned);
    gpu_equal(hf_owner_of(device, &owner), 0);
    gpu_equal(owner.kind, HF_OWNER_DEVICE);
    gpu_equal(owner.device, 0);

    void *foreign = NULL;
    gpu_cuda(cudaMalloc(&foreign, 1000));
    gpu_equal(hf_owner_of(foreign, &owner), 0);
    gpu_equal(owner.kind, HF_OWNER_CUDA);
    struct hf_space space = {.size = sizeof space};
    gpu_equal(hf_space_of(foreign, &space), -ENOENT);
    gpu_cuda(cudaFree(foreign));
    gpu_give(pinned, HF_STREAM_DONE);
    gpu_give(device, NULL);
}

static void every_device(void)
{
    int count = 0;
    gpu_cuda(cudaGetDeviceCount(&count));
    if (count < 2)
        gpu_skip("one device only");
    for (int device = 0; device < count; device++) {
        void *out = NULL;
        gpu_equal(hf_space_alloc(&out, HF_SPACE_DEVICE, device, GPU_MIB, 0, NULL), 0);
        gpu_equal(gpu_space_of(out).device, device);
        int current = -1;
        gpu_cuda(cudaGetDevice(&current));
        gpu_equal(current, 0);
        gpu_cuda(cudaSetDevice(device));
        gpu_cuda(cudaMemset(out, 7, GPU_MIB));
        gpu_check(gpu_all_bytes(out, GPU_MIB, 7));
        gpu_cuda(cudaSetDevice(0));
        gpu_give(out, HF_STREAM_DONE);
    }
}

const struct gpu_case gpu_blocks[] = {
    {"pinned blocks", pinned_blocks, false},
    {"device blocks", device_blocks, false},
    {"alignments and wrong arguments", alignments, false},
    {"copies to the device and back", copies, false},
    {"kernels write to each space", kernels, true},
    {"what CUDA says of ours, and we of its", owners, false},
    {"every device", every_device, false},
    {NULL, NULL, false},
};
