/*
 * A double of mimalloc, because no package has one whose functions are visible from outside: its
 * names, and a function behind them that other objects could call, past what the heap replaces.
 */
#include <stddef.h>

#define VISIBLE __attribute__((visibility("default"), noinline))

static char pages[1 << 16];
static size_t used;

VISIBLE void *_mi_page_alloc(size_t size)
{
    void *block = pages + used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof pages ? block : NULL;
}

#ifdef HEAPS
/* A user of heaps of its own, of which the heap has no like. */
static __attribute__((noinline)) void *mi_heap_new(void)
{
    return _mi_page_alloc(64);
}

VISIBLE void *make_heap(void)
{
    return mi_heap_new();
}
#endif

VISIBLE void *mi_malloc(size_t size)
{
    return _mi_page_alloc(size);
}

/* rpmalloc's operators are its malloc(), too: they throw nothing. */
VISIBLE void *_Znwm(size_t size) __attribute__((alias("mi_malloc")));
VISIBLE void *_Znam(size_t size) __attribute__((alias("mi_malloc")));

VISIBLE void mi_free(void *block)
{
    if ((char *)block == pages)
        used = 0;
}
