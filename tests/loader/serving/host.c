/*
 * A program that has an allocator linked in as its malloc and embeds CPython: `import homefree` in
 * it works, and so does what it did before.
 *
 * usage: host LIBPYTHON SOURCE
 */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;

static void *find(const char *name)
{
    return symbol_of(library, name);
}

int main(int count, char **arguments)
{
    char *kept[32];
    if (count != 3 || (library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) == NULL)
        return 2;
    for (int i = 0; i < 22; i++)
        kept[i] = memset(malloc((size_t)16 << i), 1, (size_t)16 << i);
    (*(void (*)(void))find("Py_Initialize"))();
    int result = (*(int (*)(const char *))find("PyRun_SimpleString"))(arguments[2]);
    for (int i = 0; i < 22; i++)
        free(realloc(kept[i], 100));
    result |= (*(int (*)(void))find("Py_FinalizeEx"))();
    if (result == 0)
        puts("fine");
    return result != 0;
}
