/*
 * A module with mimalloc inside, hidden by a version script. See tests/load/hidden/inner.h.
 */
#include "../../load/hidden/inner.h"

#include <malloc.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void free_strdup(void)
{
    free(strdup("allocated by libc or the allocator inside, freed by the allocator inside"));
}

static void *give_extended(size_t size, bool zeroed, size_t alignment)
{
    if (zeroed)
        return mi_zalloc_aligned(size, alignment);
    return mi_malloc_aligned(size, alignment);
}

static int tune(void)
{
    mi_option_set(mi_option_verbose, 0);
    mi_collect(true);
    char *text = mi_strdup("text");
    text = mi_rezalloc(text, 100);
    if (strcmp(text, "text") != 0 || mi_usable_size(text) < 100)
        return 1;
    mi_free_size(text, 100);
    text = mi_recalloc(mi_calloc(3, 5), 30, 50);
    if (text[1499] != 0)
        return 2;
    mi_free(text);
    return mi_malloc_aligned(SIZE_MAX / 2, 64) == NULL ? 0 : 3;
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
