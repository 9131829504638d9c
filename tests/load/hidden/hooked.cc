/*
 * A module with gperftools' tcmalloc inside that wants to be told of each allocation. tcmalloc
 * calls such hooks, the heap does not, so an adopted copy would never hear of any.
 */
#include "inner.h"

#include <cstdlib>
#include <gperftools/malloc_hook_c.h>

namespace
{

size_t count;

void allocated(const void *, size_t)
{
    count++;
}

void free_strdup()
{
    MallocHook_AddNewHook(allocated);
    free(malloc(1));
}

const struct inner functions = {
    free_strdup, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr,     nullptr, nullptr, nullptr, nullptr, nullptr,
};

} // namespace

extern "C" const struct inner *inner()
{
    return &functions;
}
