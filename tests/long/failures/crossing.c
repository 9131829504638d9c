/* A program with one finding for diagnostics mode, for failures.py: crossing MODULE. */
#include <dlfcn.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    void *module = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (module == NULL)
        return 2;
    void *(*make)(size_t) = NULL;
    *(void **)&make = dlsym(module, "module_make");
    free(make(100));
    return 0;
}
