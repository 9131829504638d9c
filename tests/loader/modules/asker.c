/*
 * A module that calls another allocator by name: it was written for mimalloc or tcmalloc
 * (ASKER_FREE and ASKER_REALLOC), and is handed a block of the heap.
 */
#include "asker.h"

#include <dlfcn.h>

const struct asker *asker(void);
void ASKER_FREE(void *ptr);
void *ASKER_REALLOC(void *ptr, size_t size);

static void release(void *ptr)
{
    ASKER_FREE(ptr);
}

static void *resize(void *ptr, size_t size)
{
    return ASKER_REALLOC(ptr, size);
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    __asm__ volatile("" ::: "memory"); /* a tail call would change the caller */
    return found;
}

__attribute__((visibility("default"))) const struct asker *asker(void)
{
    static const struct asker functions = {release, resize, find};
    return &functions;
}
