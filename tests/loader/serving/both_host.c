/*
 * Takes memory from both allocators of both.c and keeps it.
 *
 * usage: both-host BOTH
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **arguments)
{
    void *handle = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (handle == NULL)
        return 2;
    void *(*first)(size_t) = (void *(*)(size_t))dlsym(handle, "mi_malloc");
    void *(*second)(size_t) = (void *(*)(size_t))dlsym(handle, "rpmalloc");
    for (int i = 0; i < 3; i++) {
        if (first == NULL || second == NULL || first((size_t)64 << 20) == NULL)
            return 3;
        /* A gap, so that the two mappings do not become one. */
        (void)mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (second((size_t)8 << 20) == NULL)
            return 3;
        (void)mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return 0;
}
