/* What the tests ask of module.c: loaded under a name that crossings show. */
#ifndef HOMEFREE_TESTS_CHECK_MODULE_H
#define HOMEFREE_TESTS_CHECK_MODULE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct module {
    void *(*make)(size_t size);
    void *(*resize)(void *block, size_t size);
    void *(*copy)(const char *text);
    void (*drop)(void *block);
};

static inline struct module load_module(const char *path)
{
    struct module module;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&module.make = dlsym(handle, "module_make");
    *(void **)&module.resize = dlsym(handle, "module_resize");
    *(void **)&module.copy = dlsym(handle, "module_copy");
    *(void **)&module.drop = dlsym(handle, "module_drop");
    return module;
}

#endif
