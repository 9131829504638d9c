/*
 * A module with jemalloc inside that reads a variable of its allocator: only that would be left of
 * the old allocator, and an adopted copy would read what nobody writes any more.
 */
#include "inner.h"

#include <stdlib.h>

extern const char *malloc_conf;

static void free_strdup(void)
{
    malloc_conf = "narenas:1";
    free(malloc(1));
}

const struct inner *inner(void)
{
    static const struct inner functions = {.free_strdup = free_strdup};
    return &functions;
}
