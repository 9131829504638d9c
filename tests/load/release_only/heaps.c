/*
 * A double of mimalloc in a module that makes heaps of its own, and aligns inside of blocks: what
 * the heap has no like of. Blocks have a header, and releasing one without it ends the process.
 */
#include "../hidden/inner.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden"), noinline))

enum { MAGIC = 0x6d696d61 };
struct header {
    uint64_t magic, size;
};

extern HIDDEN void *_mi_page_alloc(size_t size);
extern HIDDEN void *mi_heap_new(void);
extern HIDDEN void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset);
extern HIDDEN void *mi_malloc(size_t size);
extern HIDDEN void *mi_realloc(void *block, size_t size);
extern HIDDEN size_t mi_usable_size(const void *block);
extern HIDDEN void mi_free(void *block);

static uint64_t in_use;

static struct header *header_of(const void *block)
{
    struct header *header = (struct header *)(uintptr_t)block - 1;
    if (header->magic != MAGIC)
        abort();
    return header;
}

void *_mi_page_alloc(size_t size)
{
    static _Alignas(64) char pages[64 << 20];
    static size_t next;
    const size_t whole = (sizeof(struct header) + size + 63) & ~(size_t)63;
    const size_t at = __atomic_fetch_add(&next, whole, __ATOMIC_RELAXED);
    if (at + whole > sizeof pages)
        return NULL;
    struct header *header = (struct header *)(void *)(pages + at);
    header->magic = MAGIC;
    header->size = size;
    __atomic_add_fetch(&in_use, 1, __ATOMIC_RELAXED);
    return header + 1;
}

void *mi_heap_new(void)
{
    return _mi_page_alloc(64);
}

void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset)
{
    return (char *)_mi_page_alloc(size + alignment + offset);
}

void *mi_malloc(size_t size)
{
    return _mi_page_alloc(size);
}

void mi_free(void *block)
{
    if (block == NULL)
        return;
    struct header *header = header_of(block);
    header->magic = 0;
    __atomic_sub_fetch(&in_use, 1, __ATOMIC_RELAXED);
}

size_t mi_usable_size(const void *block)
{
    return block != NULL ? header_of(block)->size : 0;
}

void *mi_realloc(void *block, size_t size)
{
    void *moved = mi_malloc(size);
    const size_t before = mi_usable_size(block);
    if (before > 0)
        memcpy(moved, block, before < size ? before : size);
    mi_free(block);
    return moved;
}

#ifdef REACHES
/* What nobody can guard: other code gives a block to an inner function. */
HIDDEN size_t _mi_page_size(const void *block)
{
    return header_of(block)->size + in_use;
}
#endif

static void *give(size_t size)
{
    return mi_malloc(size);
}

static void *give_zeroed(size_t count, size_t size)
{
    return mi_malloc(count * size);
}

static void *give_aligned(size_t alignment, size_t size)
{
    return mi_malloc_aligned_at(size, alignment, 0);
}

static void *give_object(void)
{
    return mi_heap_new();
}

static void free_strdup(void)
{
    mi_free(strdup("allocated by libc, freed by the allocator inside"));
}

static size_t measure(void *block)
{
#ifdef REACHES
    return _mi_page_size(block);
#else
    return mi_usable_size(block);
#endif
}

static const struct inner functions = {
    .free_strdup = free_strdup,
    .give = give,
    .give_zeroed = give_zeroed,
    .give_aligned = give_aligned,
    .resize = mi_realloc,
    .measure = measure,
    .take = mi_free,
    .give_object = give_object,
    .take_object = mi_free,
};

const struct inner *inner(void)
{
    return &functions;
}
