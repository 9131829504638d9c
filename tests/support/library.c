/* Owns nothing. Apart from process.c, so that a program without Check can link it. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Does not use Check's assertions, because those only work inside tests. */
static void *require(void *found)
{
    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    return found;
}

void *load(const char *path, int mode)
{
    return require(dlopen(path, mode));
}

void *symbol_of(void *handle, const char *name)
{
    return require(dlsym(handle, name));
}
