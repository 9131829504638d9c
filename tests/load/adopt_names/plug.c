/*
 * A module with a jemalloc inside that loads what lies beside it, as plugins do.
 */
#include <dlfcn.h>
#include <stdlib.h>

extern int count_up(void);
extern const char *load_beside(void);
extern void *give(size_t size);

static int count;

int count_up(void)
{
    return ++count;
}

/* NULL, or why it cannot be loaded. */
const char *load_beside(void)
{
    return dlopen("$ORIGIN/beside.so", RTLD_NOW) != NULL ? NULL : dlerror();
}

void *give(size_t size)
{
    return malloc(size);
}
