/*
 * Stands for the foreign allocator's library while asker.c is linked, so that no development
 * package is needed; it has the real one's soname, and is never loaded.
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
