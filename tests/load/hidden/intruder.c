/*
 * Doubles of mimalloc in objects that must be refused, because code beside the allocator shares
 * more with it than its functions:
 *   FIELD   reads another field of its variable
 *   SLOT    reads its variable, which other objects see, through the slot that both use
 *   MERGED  is optimised together with it, so that arguments that are constant are not passed
 */
#include <stddef.h>

#define VISIBLE __attribute__((visibility("default")))
#define HIDDEN  __attribute__((visibility("hidden"), noinline))

static char pages[1 << 16];

#ifdef SLOT
VISIBLE size_t mi_used;
#else
/* Or clang makes two variables of it. */
static __attribute__((used)) struct {
    size_t used, limit;
} state = {0, sizeof pages};
#    define mi_used state.used
#endif

HIDDEN void *mi_malloc(size_t size)
{
    void *block = pages + mi_used;
    mi_used += (size + 15) & ~(size_t)15;
    return block;
}

HIDDEN void *mi_malloc_aligned(size_t size, size_t alignment)
{
    mi_used = (mi_used + alignment - 1) & ~(alignment - 1);
    return mi_malloc(size);
}

HIDDEN void mi_free(void *block)
{
    if ((char *)block == pages)
        mi_used = 0;
}

VISIBLE void *give(size_t size)
{
    return size > 64 ? mi_malloc_aligned(size, 64) : mi_malloc(size);
}

VISIBLE void take(void *block)
{
    mi_free(block);
}

#if defined SLOT
VISIBLE size_t look(void)
{
    return mi_used;
}
#elif defined FIELD
VISIBLE size_t look(void)
{
    return state.limit;
}

VISIBLE void limit(size_t size)
{
    state.limit = size;
}
#endif
