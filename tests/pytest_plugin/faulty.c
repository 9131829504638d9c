/* Deliberate faults, each with a rule of its own, for tests that call them through ctypes. */
#include <stdlib.h>

#pragma GCC visibility push(default)

void twice(size_t size);
void inside(size_t size);
void mild(size_t size);
void _ZdlPv(void *block); /* operator delete(void *) */

void twice(size_t size)
{
    void *volatile block = malloc(size);
    free(block);
    free(block);
}

void inside(size_t size)
{
    char *volatile block = malloc(size);
    free(block + 8);
}

void mild(size_t size)
{
    _ZdlPv(malloc(size));
}
