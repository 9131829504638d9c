/*
 * What the modules in C++ have in common. See inner.h.
 */
#ifndef HOMEFREE_TESTS_LOAD_HIDDEN_INNER_CXX_H
#define HOMEFREE_TESTS_LOAD_HIDDEN_INNER_CXX_H

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

#ifdef HANDLER
/* What the module's own new handler throws. */
struct expected : std::bad_alloc {
};

void handler()
{
    throw expected();
}

const std::new_handler before = std::set_new_handler(handler);
#else
using expected = std::bad_alloc;
#endif

bool throws()
{
    volatile size_t huge = static_cast<size_t>(1) << 62;
    try {
        void *volatile block = ::operator new(huge); /* GCC 10 would leave out both calls */
        ::operator delete(block);
    } catch (const expected &) {
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

} // namespace

#endif
