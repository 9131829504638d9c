/*
 * An allocator of its own, for a module that is loaded with RTLD_DEEPBIND: blocks from a fixed
 * pool, which no other free would survive.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

extern int pool_frees;
API int pool_frees;

static _Alignas(16) char pool[1 << 20];
static size_t used;

API void *malloc(size_t size)
{
    char *block = pool + used + 16;
    if (size > sizeof pool - used - 32)
        return NULL;
    used += (size + 47) & ~(size_t)15;
    memcpy(block - 16, &size, sizeof size);
    return block;
}

API void free(void *ptr)
{
    if ((char *)ptr >= pool && (char *)ptr < pool + sizeof pool)
        pool_frees++;
    else if (ptr != NULL)
        abort();
}

API void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* this pool never reuses memory */
}

API void *realloc(void *ptr, size_t size)
{
    void *block = malloc(size);
    if (ptr != NULL && block != NULL) {
        size_t old;
        memcpy(&old, (char *)ptr - 16, sizeof old);
        memcpy(block, ptr, old < size ? old : size);
        free(ptr);
    }
    return block;
}
