// Where a tensor's memory comes from, and goes back to.
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <Python.h>
#include <homefree/python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

class Allocator
{
  public:
    virtual ~Allocator() = default;

    // Any thread. `release` may run without Python, at interpreter exit and after it.
    virtual void *allocate(std::size_t bytes) = 0;
    virtual void release(void *data, std::size_t bytes) noexcept = 0;

    // What DLPack calls the memory: consumers look here before they touch it.
    virtual hf_dl_device device() const = 0;

    // Whether the host may write there.
    virtual bool is_hosts() const = 0;

    // Work on another stream uses the memory from now on: it waits for the work of the allocator's
    // stream, and the memory is kept until it is done.
    virtual void share(void *, void *)
    {
    }

    std::atomic<std::size_t> live{0}, returned{0}; // blocks
};

// The allocator of a space of memory: "host", "pinned" or "device". Without a stream, a device's
// memory belongs to the default stream, and page-locked memory is freed as memory whose streams are
// not known. Throws where the machine has no such memory.
std::shared_ptr<Allocator> allocator_of(const std::string &space, bool trace, int device,
                                        std::optional<std::uintptr_t> stream);

#endif
