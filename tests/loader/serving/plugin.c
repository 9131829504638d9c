/*
 * See plugin.h. With PLUGIN_NO_SLOTS nothing of the malloc family is linked: everything is found by
 * name.
 */
#include "plugin.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

const struct plugin *plugin(void);

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    __asm__ volatile("" ::: "memory"); /* a tail call would change the caller */
    return found;
}

#ifdef PLUGIN_NO_SLOTS
static void *libcs(const char *name)
{
    void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *found = dlsym(handle, name);
    dlclose(handle);
    return found;
}

/* The functions of the plugin's scope, which are libc's. */
static void *acquire(size_t size)
{
    return ((void *(*)(size_t))libcs("malloc"))(size);
}

static void release(void *ptr)
{
    ((void (*)(void *))find("free"))(ptr);
}

static void *resize(void *ptr, size_t size)
{
    return ((void *(*)(void *, size_t))find("realloc"))(ptr, size);
}

static size_t measure(void *ptr)
{
    return ((size_t(*)(void *))find("malloc_usable_size"))(ptr);
}

static void *find_next_to_libc(void)
{
    return libcs("malloc");
}

static const struct plugin_table constant = {release};
#else
static void *acquire(size_t size)
{
    return malloc(size);
}

static void release(void *ptr)
{
    free(ptr);
}

static void *resize(void *ptr, size_t size)
{
    return realloc(ptr, size);
}

static size_t measure(void *ptr)
{
    return malloc_usable_size(ptr);
}

static void *(*const volatile allocate)(size_t) = malloc;

static void *find_next_to_libc(void)
{
    return (void *)allocate;
}

static const struct plugin_table constant = {free};
#endif

__attribute__((visibility("default"))) const struct plugin *plugin(void)
{
    static const struct plugin functions = {
        acquire, release, resize, measure, &constant, find, find_next_to_libc,
    };
    return &functions;
}
