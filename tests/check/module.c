/* A module on the heap, whose functions end in jumps where the compiler can: what a return address
 * would take for their callers. */
#include <stdlib.h>
#include <string.h>

#define MODULE_API __attribute__((visibility("default")))

MODULE_API void *module_make(size_t size);
MODULE_API void *module_resize(void *block, size_t size);
MODULE_API void *module_copy(const char *text);
MODULE_API void module_drop(void *block);

void *module_make(size_t size)
{
    return malloc(size);
}

void *module_resize(void *block, size_t size)
{
    return realloc(block, size);
}

void *module_copy(const char *text)
{
    return strdup(text);
}

void module_drop(void *block)
{
    free(block);
}
