/*
 * A C++ module with jemalloc inside, its operators too. See inner.h.
 */
#include "inner.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

namespace
{

void free_strdup()
{
    free(strdup("allocated by libc, freed by the allocator inside"));
}

bool grow_string()
{
    std::string text;
    for (int i = 0; i < 1000; i++)
        text.append("libstdc++ grows it, the module frees it");
    return text.size() == 1000 * strlen("libstdc++ grows it, the module frees it");
}

bool throws()
{
    volatile size_t huge = static_cast<size_t>(1) << 62;
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

struct alignas(64) object {
    char bytes[192];
};

void *give_object()
{
    return new object;
}

void take_object(void *ptr)
{
    delete static_cast<object *>(ptr);
}

const struct inner functions = {
    free_strdup, malloc,  calloc,      aligned_alloc, realloc,     nullptr,     free,
    nullptr,     nullptr, grow_string, throws,        give_object, take_object,
};

} // namespace

extern "C" const struct inner *inner()
{
    return &functions;
}
