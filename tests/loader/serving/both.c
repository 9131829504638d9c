/*
 * Two allocators in one object, as in libarrow.so: mimalloc's functions, one of which says what it
 * owns, and rpmalloc's, which cannot be asked. Each block is a mapping of its own.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define API __attribute__((visibility("default")))

static void *mi_blocks[64];
static size_t mi_count;

API void *mi_malloc(size_t size);
API bool mi_is_in_heap_region(const void *ptr);
API void *rpmalloc(size_t size);
void mi_free(void *ptr);
void *mi_realloc(void *ptr, size_t size);
size_t mi_usable_size(const void *ptr);
void rpfree(void *ptr);
void *rprealloc(void *ptr, size_t size);
size_t rpmalloc_usable_size(void *ptr);

static void *map(size_t size)
{
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, size, MADV_NORMAL);
    return memcpy(at, &size, sizeof size);
}

static size_t size_of(const void *ptr)
{
    size_t size;
    memcpy(&size, ptr, sizeof size);
    return size;
}

void *mi_malloc(size_t size)
{
    return mi_blocks[mi_count++] = map(size);
}

bool mi_is_in_heap_region(const void *ptr)
{
    for (size_t i = 0; i < mi_count; i++)
        if ((uintptr_t)ptr - (uintptr_t)mi_blocks[i] < size_of(mi_blocks[i]))
            return true;
    return false;
}

void mi_free(void *ptr)
{
    (void)ptr;
}

void *mi_realloc(void *ptr, size_t size)
{
    return ptr != NULL && size_of(ptr) >= size ? ptr : mi_malloc(size);
}

size_t mi_usable_size(const void *ptr)
{
    return size_of(ptr);
}

void *rpmalloc(size_t size)
{
    return map(size);
}

void rpfree(void *ptr)
{
    (void)ptr;
}

void *rprealloc(void *ptr, size_t size)
{
    return ptr != NULL && size_of(ptr) >= size ? ptr : map(size);
}

size_t rpmalloc_usable_size(void *ptr)
{
    return size_of(ptr);
}
