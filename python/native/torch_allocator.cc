/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that torch's CUDAPluggableAllocator calls: a library of its own, because torch
 * looks them up by name. Owns nothing, takes no lock, knows neither torch nor CUDA. Any thread that
 * torch calls from.
 *
 * torch uses what the allocating function returns without looking at it, so failure is a C++
 * exception, which torch turns into Python's RuntimeError.
 */
#include <homefree/homefree.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void *hf_torch_alloc(std::size_t size, int device, void *stream);
EXPORTED void hf_torch_free(void *pointer, std::size_t size, int device, void *stream);
EXPORTED void hf_torch_record_stream(void *pointer, void *stream);
EXPORTED void hf_torch_empty_cache(void);
EXPORTED void hf_torch_memory_fraction(double fraction, int device);

static std::string reason_of(int error, int device)
{
    char text[256] = "";
    if (hf_space_reason(HF_SPACE_DEVICE, device, text, sizeof text) == 0 && text[0] != '\0')
        return text;
    return std::strerror(-error);
}

[[noreturn]] static void no_memory(int error, std::size_t size, int device)
{
    std::string text = "homefree: no " + std::to_string(size) + " bytes on CUDA device " +
                       std::to_string(device) + ": " + reason_of(error, device);
    if (error == -ENOMEM)
        text += "; free tensors, call homefree.cuda.trim(), or raise homefree.cuda.limit()";
    throw std::runtime_error(text);
}

void *hf_torch_alloc(std::size_t size, int device, void *stream)
{
    void *block = nullptr;
    if (size == 0)
        return nullptr;
    int error = hf_space_alloc(&block, HF_SPACE_DEVICE, device, size, 0, stream);
    if (error != 0)
        no_memory(error, size, device);
    return block;
}

/* torch passes the stream for which the block was allocated. What cannot be freed is counted
 * (hf_space_stats(), leaked), because torch also frees in destructors. */
void hf_torch_free(void *pointer, std::size_t size, int device, void *stream)
{
    (void)size, (void)device;
    (void)hf_space_free(pointer, stream);
}

/* Tensor.record_stream(). */
void hf_torch_record_stream(void *pointer, void *stream)
{
    if (pointer != nullptr && hf_space_use(pointer, stream) == -ENOMEM)
        throw std::runtime_error("homefree: no memory to record that a stream uses a tensor");
}

/* The devices whose space was used. */
template <typename Function> static void each_device(Function function)
{
    for (int device = 0; device < 256; device++) {
        struct hf_space_stats stats = {};
        stats.size = sizeof stats;
        int error = hf_space_stats(HF_SPACE_DEVICE, device, HF_STREAM_ANY, &stats);
        if (error != 0)
            return;
        if (stats.reserved != 0)
            function(device);
    }
}

/* torch.cuda.empty_cache(). */
void hf_torch_empty_cache(void)
{
    each_device([](int device) { (void)hf_space_trim(HF_SPACE_DEVICE, device, 0, nullptr); });
}

/* torch.cuda.set_per_process_memory_fraction(), also before the first allocation. */
void hf_torch_memory_fraction(double fraction, int device)
{
    struct hf_space_stats stats = {};
    stats.size = sizeof stats;
    /* The default limit, which tells what the device has. */
    int error = fraction >= 0 ? hf_space_limit(HF_SPACE_DEVICE, device, 0) : -EINVAL;
    if (error == 0)
        error = hf_space_stats(HF_SPACE_DEVICE, device, HF_STREAM_ANY, &stats);
    if (error == 0)
        error = hf_space_limit(
            HF_SPACE_DEVICE, device,
            std::max<std::uint64_t>(
                1, static_cast<std::uint64_t>(fraction * static_cast<double>(stats.total))));
    if (error != 0)
        throw std::runtime_error("homefree: no limit for CUDA device " + std::to_string(device) +
                                 ": " + reason_of(error, device));
}
