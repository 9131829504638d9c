/*
 * A C++ module with jemalloc inside, its operators too. See inner.h.
 */
#include "inner_cxx.h"

namespace
{

const struct inner functions = {
    free_strdup, malloc,  calloc,      aligned_alloc, realloc,     nullptr,     free,
    nullptr,     nullptr, grow_string, throws,        give_object, take_object,
};

} // namespace

extern "C" const struct inner *inner()
{
    return &functions;
}
