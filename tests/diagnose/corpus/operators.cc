/* Operators of a module's own, for a guest that is linked with -Bsymbolic and so calls them. */
#include <cstddef>
#include <cstdlib>
#include <new>

void *operator new(std::size_t size)
{
    void *ptr = std::malloc(size);
    if (ptr == nullptr)
        throw std::bad_alloc();
    return ptr;
}

void *operator new[](std::size_t size)
{
    return operator new(size);
}

void operator delete(void *ptr) noexcept
{
    std::free(ptr);
}

void operator delete(void *ptr, std::size_t) noexcept
{
    std::free(ptr);
}

void operator delete[](void *ptr) noexcept
{
    std::free(ptr);
}

void operator delete[](void *ptr, std::size_t) noexcept
{
    std::free(ptr);
}
