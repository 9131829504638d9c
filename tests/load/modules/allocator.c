/*
 * A module with an allocator of its own: it must not be adopted. Its blocks come from an array.
 */
#include <stddef.h>

static _Alignas(16) char bytes[4096];
static size_t used;

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    size_t place = used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof bytes ? bytes + place : NULL;
}

__attribute__((visibility("default"))) void free(void *ptr)
{
    (void)ptr;
}

__attribute__((visibility("default"))) void *module_take(size_t size)
{
    return malloc(size);
}
