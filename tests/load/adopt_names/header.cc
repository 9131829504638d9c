/*
 * A program's own operator new over its allocator: it keeps the size in front of each block, and
 * other code reads it there. A block from the heap has nothing in front.
 */
#include <cstddef>
#include <new>

extern "C" {
void *mi_malloc(std::size_t size) __attribute__((visibility("hidden"), noinline));
void mi_free(void *block) __attribute__((visibility("hidden"), noinline));
std::size_t measure(const void *block);
void *give(std::size_t size);
void take(void *block);
}

static char pages[1 << 16];
static std::size_t used;

void *mi_malloc(std::size_t size)
{
    void *block = pages + used;
    used += (size + 15) & ~static_cast<std::size_t>(15);
    return used <= sizeof pages ? block : nullptr;
}

void mi_free(void *block)
{
    if (block == pages)
        used = 0;
}

void *operator new(std::size_t size)
{
    std::size_t *const block = static_cast<std::size_t *>(mi_malloc(size + 16));
    *block = size;
    return block + 2;
}

void operator delete(void *block) noexcept
{
    if (block != nullptr)
        mi_free(static_cast<std::size_t *>(block) - 2);
}

void operator delete(void *block, std::size_t) noexcept
{
    operator delete(block);
}

std::size_t measure(const void *block)
{
    return static_cast<const std::size_t *>(block)[-2];
}

void *give(std::size_t size)
{
    return ::operator new(size);
}

void take(void *block)
{
    ::operator delete(block);
}
