/* See marks.c: an object that allocates. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *give(void);

void *give(void)
{
    void *volatile block = malloc(SIZE);
    return block;
}
