/*
 * A module that loads others and looks symbols up: whose search paths and scope are used is decided
 * by who calls, so it must be this module.
 */
#include "opener.h"

#include <dlfcn.h>
#include <stddef.h>

const struct opener *opener(void);

/* Prevents tail calls, because the return address identifies the caller. */
#define KEEP_FRAME __asm__ volatile("" ::: "memory")

static void *open_object(const char *file, int mode)
{
    void *handle = dlopen(file, mode);
    KEEP_FRAME;
    return handle;
}

static void *open_in_new_namespace(const char *file, int mode)
{
    void *handle = dlmopen(LM_ID_NEWLM, file, mode);
    KEEP_FRAME;
    return handle;
}

static void *symbol(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    KEEP_FRAME;
    return found;
}

static void *versioned_symbol(void *handle, const char *name, const char *version)
{
    void *found = dlvsym(handle, name, version);
    KEEP_FRAME;
    return found;
}

__attribute__((visibility("default"))) const struct opener *opener(void)
{
    static const struct opener functions = {
        open_object, open_in_new_namespace, symbol, versioned_symbol, dlerror, dlclose,
    };
    return &functions;
}
