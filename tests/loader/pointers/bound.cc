// See bound.h.
#include "bound.h"

#include <cstdlib>
#include <new>

extern "C" const struct bound *bound()
{
    static const struct bound functions = {
        [](size_t size) { return std::malloc(size); },
        [](void *ptr, size_t size) { return std::realloc(ptr, size); },
        {
            [](void *ptr) { std::free(ptr); },
            [](void *ptr) { ::operator delete(ptr); },
            [](void *ptr) { ::operator delete[](ptr); },
            [](void *ptr) { ::operator delete(ptr, std::nothrow); },
        },
    };
    return &functions;
}
