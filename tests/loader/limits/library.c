/*
 * A library that is linked with the shim: what it allocates is what a limit counts.
 */
#include "tests/loader/limits/library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void *library_malloc(size_t size)
{
    return malloc(size);
}

void *library_calloc(size_t size)
{
    return calloc(1, size);
}

void *library_aligned(size_t alignment, size_t size)
{
    void *block;
    const int error = posix_memalign(&block, alignment, size);
    errno = error;
    return error == 0 ? block : NULL;
}

void *library_realloc(void *block, size_t size)
{
    return realloc(block, size);
}

#ifdef WITH_SHIM
/* mimalloc's, as an adopted copy calls it. */
extern void *hf_adopted_reallocf(void *block, size_t size);

void *library_reallocf(void *block, size_t size)
{
    return hf_adopted_reallocf(block, size);
}
#else
void *library_reallocf(void *block, size_t size)
{
    return realloc(block, size);
}
#endif

char *library_strdup(const char *text)
{
    return strdup(text);
}

void library_free(void *block)
{
    free(block);
}
