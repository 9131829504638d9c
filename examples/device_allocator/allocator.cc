#include "allocator.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <unistd.h>

namespace
{

class HostAllocator : public Allocator
{
  public:
    explicit HostAllocator(bool says) : trace(says)
    {
    }

    void *allocate(std::size_t bytes) override
    {
        void *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (data == nullptr)
            throw std::bad_alloc();
        live++;
        return data;
    }

    void release(void *data, std::size_t bytes) noexcept override
    {
        std::free(data);
        live--;
        returned++;
        char line[64];
        const int length = std::snprintf(line, sizeof line, "host: %zu bytes back\n", bytes);
        if (trace && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0)
            std::abort();
    }

    hf_dl_device device() const override
    {
        return {HF_DL_CPU, 0};
    }

  private:
    const bool trace;
};

} // namespace

std::shared_ptr<Allocator> allocator_of(const std::string &space, bool trace)
{
    if (space == "host")
        return std::make_shared<HostAllocator>(trace);

    // A device's allocators go here, and nothing else changes: a class whose allocate() and
    // release() call cudaHostAlloc() and cudaFreeHost() with the device {HF_DL_CUDA_HOST, 0}, and
    // one with cudaMallocAsync() and cudaFreeAsync() on a stream of its own, {HF_DL_CUDA, index}.
    if (space == "pinned" || space == "device")
        throw std::runtime_error("there is no allocator for '" + space +
                                 "' memory in this build; use 'host'");
    throw std::invalid_argument("space is 'host', 'pinned' or 'device', not '" + space + "'");
}
