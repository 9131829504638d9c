/*
 * An allocator with mimalloc's names whose question answers yes for NULL, as mimalloc 3.0's does.
 * It counts the calls of its functions.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#define API __attribute__((visibility("default")))

API int mi_calls;
API bool mi_is_in_heap_region(const void *ptr);
API void *mi_malloc(size_t size);
API void *mi_realloc(void *ptr, size_t size);
API size_t mi_usable_size(const void *ptr);
API void mi_free(void *ptr);

API bool mi_is_in_heap_region(const void *ptr)
{
    return ptr == NULL;
}

API void *mi_malloc(size_t size)
{
    mi_calls++;
    /* Maps memory, because an object that maps none is not taken for an allocator. */
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

API void *mi_realloc(void *ptr, size_t size)
{
    return ptr == NULL ? mi_malloc(size) : NULL;
}

API size_t mi_usable_size(const void *ptr)
{
    mi_calls++;
    return ptr != NULL;
}

API void mi_free(void *ptr)
{
    (void)ptr;
    mi_calls++;
}
