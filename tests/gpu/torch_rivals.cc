// torch's two caching allocators, called from C++ as its own code does, and homefree's spaces:
// pairs of allocating and freeing, timed in one process in turns.
#include <ATen/cuda/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace
{

using space_alloc = int (*)(void **out, int kind, int device, std::size_t size,
                            std::size_t alignment, void *stream);
using space_free = int (*)(void *ptr, void *stream);

constexpr int pinned_kind = 1, device_kind = 2;
void *const done = reinterpret_cast<void *>(std::intptr_t(-1));

template <typename F> double nanoseconds(std::size_t count, F pair)
{
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; i++)
        pair();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    return took.count() / static_cast<double>(count);
}

void check(bool right)
{
    if (!right)
        throw std::runtime_error("an allocation failed");
}

// Nanoseconds of a pair. `what`: "torch pinned", "torch device", "homefree pinned", "homefree
// device"; `library` is libhomefree's path.
double pair(const std::string &what, std::size_t size, std::size_t count,
            const std::string &library)
{
    void *const stream = c10::cuda::getCurrentCUDAStream().stream();
    if (what == "torch pinned")
        return nanoseconds(count, [&] { at::getHostAllocator(at::kCUDA)->allocate(size); });
    if (what == "torch device")
        return nanoseconds(count, [&] {
            c10::cuda::CUDACachingAllocator::raw_delete(
                c10::cuda::CUDACachingAllocator::raw_alloc(size));
        });
    void *const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    check(opened != nullptr);
    const auto alloc = reinterpret_cast<space_alloc>(dlsym(opened, "hf_space_alloc"));
    const auto free = reinterpret_cast<space_free>(dlsym(opened, "hf_space_free"));
    const bool pinned = what == "homefree pinned";
    return nanoseconds(count, [&] {
        void *block = nullptr;
        check(alloc(&block, pinned ? pinned_kind : device_kind, 0, size, 0,
                    pinned ? nullptr : stream) == 0);
        check(free(block, pinned ? done : stream) == 0);
    });
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("pair", &pair);
}
