/* A small module with what homefree reads of a loaded object: slots of every kind, versions, notes,
 * a constructor. */
#include <stdlib.h>

void (*volatile release)(void *) = free;
static void *block;

__attribute__((constructor)) static void begin(void)
{
    block = malloc(10);
}

int answer(void)
{
    void *more = realloc(malloc(20), 40);
    release(more);
    free(block);
    block = NULL;
    return 42;
}
