/* The library of early_close.c. PLUGIN: the other library's path. */
#include <dlfcn.h>
#include <stdio.h>

extern __attribute__((visibility("default"))) int early_result;
int early_result = -2;

__attribute__((constructor)) static void open_and_close(void)
{
    void *handle = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (handle != NULL)
        early_result = dlclose(handle);
}
