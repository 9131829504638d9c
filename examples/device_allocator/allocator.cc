#include "allocator.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <unistd.h>

namespace
{

// What all have: the counts, and the line that says what comes back.
class Counting : public Allocator
{
  public:
    Counting(const char *word, bool says) : name(word), trace(says)
    {
    }

  protected:
    void count_back(std::size_t bytes) noexcept
    {
        live--;
        returned++;
        char line[64];
        const int length = std::snprintf(line, sizeof line, "%s: %zu bytes back\n", name, bytes);
        if (trace && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0)
            std::abort();
    }

  private:
    const char *const name;
    const bool trace;
};

class HostAllocator : public Counting
{
  public:
    explicit HostAllocator(bool says) : Counting("host", says)
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
        count_back(bytes);
    }

    hf_dl_device device() const override
    {
        return {HF_DL_CPU, 0};
    }

    bool is_hosts() const override
    {
        return true;
    }
};

// homefree's page-locked memory, and its memory of a device: no driver's call for a block, and no
// wait for the device when one is freed, because the stream that is passed says whose work that is.
class SpaceAllocator : public Counting
{
  public:
    SpaceAllocator(hf_space_kind space, int number, std::optional<std::uintptr_t> stream, bool says)
        : Counting(space == HF_SPACE_DEVICE ? "device" : "pinned", says), kind(space),
          index(number), first(stream_of(stream.value_or(0))),
          last(stream.has_value() || kind == HF_SPACE_DEVICE ? first : HF_STREAM_ANY)
    {
        hf_space_free(take(1), HF_STREAM_DONE); // throws where there is no such memory
    }

    void *allocate(std::size_t bytes) override
    {
        void *data = take(bytes);
        live++;
        return data;
    }

    void release(void *data, std::size_t bytes) noexcept override
    {
        hf_space_free(data, last);
        count_back(bytes);
    }

    hf_dl_device device() const override
    {
        return kind == HF_SPACE_DEVICE ? hf_dl_device{HF_DL_CUDA, index}
                                       : hf_dl_device{HF_DL_CUDA_HOST, 0};
    }

    bool is_hosts() const override
    {
        return kind != HF_SPACE_DEVICE;
    }

    void share(void *data, void *stream) override
    {
        if (kind != HF_SPACE_DEVICE || stream == first)
            return;
        if (hf_space_order(index, first, stream) != 0 || hf_space_use(data, stream) != 0)
            throw std::invalid_argument("the consumer's stream is none of this device");
    }

  private:
    static void *stream_of(std::uintptr_t number)
    {
        return reinterpret_cast<void *>(number);
    }

    void *take(std::size_t bytes) const
    {
        void *data = nullptr;
        const int error = hf_space_alloc(&data, kind, index, bytes, 0, first);
        if (error == -ENOMEM)
            throw std::bad_alloc();
        if (error == 0)
            return data;
        char why[256] = "";
        hf_space_reason(kind, index, why, sizeof why);
        throw std::runtime_error(std::string("there is no '") +
                                 (kind == HF_SPACE_DEVICE ? "device" : "pinned") +
                                 "' memory here; use 'host'" + (why[0] != 0 ? ": " : "") + why);
    }

    const hf_space_kind kind;
    const int index;
    void *const first; // the stream that uses a block first
    void *const last;  // the stream that a block is freed on
};

} // namespace

std::shared_ptr<Allocator> allocator_of(const std::string &space, bool trace, int device,
                                        std::optional<std::uintptr_t> stream)
{
    if (space == "host")
        return std::make_shared<HostAllocator>(trace);
    if (space == "pinned")
        return std::make_shared<SpaceAllocator>(HF_SPACE_PINNED, 0, stream, trace);
    if (space == "device")
        return std::make_shared<SpaceAllocator>(HF_SPACE_DEVICE, device, stream, trace);
    throw std::invalid_argument("space is 'host', 'pinned' or 'device', not '" + space + "'");
}
