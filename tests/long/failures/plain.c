/* An ordinary library: allocates and frees with libc's functions. */
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)
void *plain_make(size_t size);
void plain_drop(void *block);
#pragma GCC visibility pop

void *plain_make(size_t size)
{
    char *block = malloc(size);
    return block != NULL ? memset(block, 'p', size) : NULL;
}

void plain_drop(void *block)
{
    free(block);
}
