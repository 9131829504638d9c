/*
 * Passes for a C++ runtime by its soname, and defines one function of one.
 */
#include <stdlib.h>

void _ZdlPv(void *ptr);
int anything(void);

void _ZdlPv(void *ptr)
{
    free(ptr);
}

int anything(void)
{
    return 42;
}
