/*
 * A module with jemalloc inside, hidden by a version script. See inner.h.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

extern void *mallocx(size_t size, int flags);
extern int mallctl(const char *name, void *old, size_t *old_size, void *value, size_t value_size);
extern size_t malloc_usable_size(void *ptr);

static void free_strdup(void)
{
    free(strdup("allocated by libc, freed by the allocator inside"));
}

static void *give_extended(size_t size, bool zeroed, size_t alignment)
{
    int flags = zeroed ? 0x40 : 0;
    for (size_t bit = 1; bit < alignment; bit <<= 1)
        flags++;
    return mallocx(size, flags);
}

static int tune(void)
{
    size_t decay = 0, size = sizeof decay;
    if (mallctl("arenas.dirty_decay_ms", NULL, NULL, &decay, size) != 0)
        return 1;
    return mallctl("stats.allocated", &decay, &size, NULL, 0) == 0 ? 2 : 0;
}

const struct inner *inner(void)
{
    static const struct inner functions = {
        .free_strdup = free_strdup,
        .give = malloc,
        .give_zeroed = calloc,
        .give_aligned = aligned_alloc,
        .resize = realloc,
        .measure = malloc_usable_size,
        .take = free,
        .give_extended = give_extended,
        .tune = tune,
    };
    return &functions;
}
