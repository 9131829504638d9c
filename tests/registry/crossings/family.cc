/*
 * The malloc family and C++'s operators of a module whose private allocator is a member of the
 * registry. What it frees that is not its own goes to the process's free(), whoever makes that send
 * pointers home. FAMILY_MEMBER is the member's structure.
 */
#include "allocator_registry.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <new>

extern "C" const struct allocator_registry FAMILY_MEMBER;
static const struct allocator_registry &own = FAMILY_MEMBER;

static bool is_own(const void *block)
{
    return own.owns(block) != ALLOCATOR_REGISTRY_NOT_MINE;
}

template <class Function> static Function *of_process(Function *&found, const char *name)
{
    if (found == nullptr)
        found = reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
    return found;
}

extern "C" {

void *malloc(size_t size)
{
    return own.allocate(size, 0);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    void *block = own.allocate(bytes, 0);
    return block != nullptr ? memset(block, 0, bytes) : nullptr;
}

void free(void *block)
{
    static void (*process)(void *);
    if (block == nullptr)
        return;
    if (is_own(block))
        own.free_block(block);
    else
        of_process(process, "free")(block);
}

void *realloc(void *block, size_t size)
{
    static void *(*process)(void *, size_t);
    if (block == nullptr)
        return own.allocate(size, 0);
    if (!is_own(block))
        return of_process(process, "realloc")(block, size);
    if (size != 0)
        return own.resize(block, size);
    own.free_block(block);
    return nullptr;
}

size_t malloc_usable_size(void *block)
{
    static size_t (*process)(void *);
    if (block == nullptr)
        return 0;
    return is_own(block) ? own.usable_size(block)
                         : of_process(process, "malloc_usable_size")(block);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return own.allocate(size, alignment);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = own.allocate(size, alignment);
    return *block != nullptr ? 0 : ENOMEM;
}
}

static void *allocate(std::size_t size, std::size_t alignment)
{
    void *block = own.allocate(size, alignment);
    if (block == nullptr)
        throw std::bad_alloc();
    return block;
}

using alignment_t = std::align_val_t;
using nothrow_t = std::nothrow_t;

void *operator new(std::size_t size)
{
    return allocate(size, 0);
}

void *operator new[](std::size_t size)
{
    return allocate(size, 0);
}

void *operator new(std::size_t size, alignment_t alignment)
{
    return allocate(size, static_cast<std::size_t>(alignment));
}

void *operator new[](std::size_t size, alignment_t alignment)
{
    return allocate(size, static_cast<std::size_t>(alignment));
}

void *operator new(std::size_t size, const nothrow_t &) noexcept
{
    return own.allocate(size, 0);
}

void *operator new[](std::size_t size, const nothrow_t &) noexcept
{
    return own.allocate(size, 0);
}

void operator delete(void *block) noexcept
{
    free(block);
}

void operator delete[](void *block) noexcept
{
    free(block);
}

void operator delete(void *block, std::size_t) noexcept
{
    free(block);
}

void operator delete[](void *block, std::size_t) noexcept
{
    free(block);
}

void operator delete(void *block, alignment_t) noexcept
{
    free(block);
}

void operator delete[](void *block, alignment_t) noexcept
{
    free(block);
}

void operator delete(void *block, std::size_t, alignment_t) noexcept
{
    free(block);
}

void operator delete[](void *block, std::size_t, alignment_t) noexcept
{
    free(block);
}

void operator delete(void *block, const nothrow_t &) noexcept
{
    free(block);
}

void operator delete[](void *block, const nothrow_t &) noexcept
{
    free(block);
}
