// Where a tensor's memory comes from, and goes back to.
#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <Python.h>
#include <homefree/python.h>

#include <atomic>
#include <cstddef>
#include <memory>
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

    std::atomic<std::size_t> live{0}, returned{0}; // blocks
};

// The allocator of a space of memory: "host", "pinned" or "device".
std::shared_ptr<Allocator> allocator_of(const std::string &space, bool trace);

#endif
