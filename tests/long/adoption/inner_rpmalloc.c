/*
 * A module with rpmalloc inside, hidden by a version script. See tests/load/hidden/inner.h.
 */
#include "../../load/hidden/inner.h"

#include <malloc.h>
#include <rpmalloc/rpmalloc.h>
#include <stdlib.h>
#include <string.h>

static void free_strdup(void)
{
    free(strdup("allocated by libc, freed by the allocator inside"));
}

static void *give_extended(size_t size, bool zeroed, size_t alignment)
{
    if (alignment <= 16)
        return zeroed ? rpcalloc(1, size) : rpmalloc(size);
    return zeroed ? rpaligned_calloc(alignment, 1, size) : rpaligned_alloc(alignment, size);
}

static int tune(void)
{
    if (!rpmalloc_is_thread_initialized())
        return 1;
    rpmalloc_thread_initialize();
    char *text = rpcalloc(1, 100);
    strcpy(text, "text");
    text = rpaligned_realloc(text, 64, 1000, 100, 0);
    if (strcmp(text, "text") != 0 || (size_t)text % 64 != 0 || rpmalloc_usable_size(text) < 1000)
        return 2;
    if (rpaligned_realloc(text, 64, 1000000, 1000, RPMALLOC_GROW_OR_FAIL) != NULL)
        return 3;
    rpfree(rprealloc(text, 10));
    return 0;
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
