/*
 * A stand-in for the foreign allocator's library at link time of asker.c, so that no development
 * package is needed. It has the real library's soname and is never loaded.
 */
#include <stddef.h>

void ASKER_FREE(void *ptr);
void *ASKER_REALLOC(void *ptr, size_t size);

void ASKER_FREE(void *ptr)
{
    (void)ptr;
}

void *ASKER_REALLOC(void *ptr, size_t size)
{
    (void)size;
    return ptr;
}
