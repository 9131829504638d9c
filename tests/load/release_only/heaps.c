/*
 * A double of mimalloc in a module that makes heaps of its own, and aligns inside of blocks: what
 * the heap has no like of. Blocks have a header, and releasing one without it ends the process.
 */
#include "../hidden/inner.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden"), noinline))

enum { MAGIC = 0x6d696d61, SMALL = 112 };
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
extern HIDDEN int mi_reallocarr(void *slot, size_t count, size_t size);

static uint64_t in_use;

static struct header *header_of(const void *block)
{
    struct header *header = (struct header *)(uintptr_t)block - 1;
    if (header->magic != MAGIC)
        abort();
    return header;
}

/* Small blocks are used again, under a lock that all threads want. */
static struct header *free_blocks;
static bool locked;

static void lock(void)
{
    while (__atomic_exchange_n(&locked, true, __ATOMIC_ACQUIRE))
        sched_yield();
}

static struct header *take_free(void)
{
    lock();
    struct header *header = free_blocks;
    if (header != NULL)
        free_blocks = *(struct header **)(header + 1);
    __atomic_store_n(&locked, false, __ATOMIC_RELEASE);
    return header;
}

static void give_free(struct header *header)
{
    lock();
    *(struct header **)(header + 1) = free_blocks;
    free_blocks = header;
    __atomic_store_n(&locked, false, __ATOMIC_RELEASE);
}

void *_mi_page_alloc(size_t size)
{
#ifdef LOW
    /* Mapped by the program, where no mapping call of the module's shows that they are its own. */
    char *const pages = (char *)LOW;
    const size_t pages_size = 64 << 20;
#else
    static _Alignas(64) char pages[64 << 20];
    const size_t pages_size = sizeof pages;
#endif
    static size_t next;
    struct header *header = size <= SMALL ? take_free() : NULL;
    if (header != NULL) {
        header->magic = MAGIC;
        return header + 1;
    }
    if (size <= SMALL)
        size = SMALL;
    const size_t whole = (sizeof(struct header) + size + 63) & ~(size_t)63;
    const size_t at = __atomic_fetch_add(&next, whole, __ATOMIC_RELAXED);
    if (at + whole > pages_size)
        return NULL;
    header = (struct header *)(void *)(pages + at);
    header->magic = MAGIC;
    header->size = size;
#ifdef LOW
    header->size = whole | 1; /* as a block of glibc's that is in use would have it */
#endif
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

/* Entries begin with one instruction of at least two bytes when they are optimised, since all that
 * needs a frame is behind them. */
static __attribute__((noinline)) void release(void *block)
{
    struct header *header = header_of(block);
    header->magic = 0;
    __atomic_sub_fetch(&in_use, 1, __ATOMIC_RELAXED);
    if (header->size == SMALL || header->size == ((SMALL + sizeof *header) | 1))
        give_free(header);
}

void mi_free(void *block)
{
    if (block != NULL)
        release(block);
}

static __attribute__((noinline)) size_t measured(const void *block)
{
    return header_of(block)->size;
}

size_t mi_usable_size(const void *block)
{
    return block != NULL ? measured(block) : 0;
}

static __attribute__((noinline)) void *resized(void *block, size_t size)
{
    void *moved = mi_malloc(size);
    const size_t before = mi_usable_size(block);
    if (before > 0)
        memcpy(moved, block, before < size ? before : size);
    mi_free(block);
    return moved;
}

void *mi_realloc(void *block, size_t size)
{
    return block != NULL ? resized(block, size) : mi_malloc(size);
}

int mi_reallocarr(void *slot, size_t count, size_t size)
{
    if (slot == NULL)
        return EINVAL;
    void **const block = (void **)slot;
    *block = mi_realloc(*block, count * size);
    return 0;
}

#ifdef REACHES
/* What nobody can guard: other code gives a block to an inner function. */
HIDDEN size_t _mi_page_size(const void *block)
{
    return header_of(block)->size + (in_use & 1);
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
    void *text = strdup("allocated by libc, freed by the allocator inside");
    if (mi_reallocarr(NULL, 1, 5) != EINVAL || mi_reallocarr(&text, 50, 5) != 0)
        abort();
    mi_free(text);
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
