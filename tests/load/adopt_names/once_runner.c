/*
 * Loads a library as it is, then adopts a module that needs a library of the same name, which lies
 * elsewhere: the dynamic linker takes the one that is there. test_names.py runs it.
 *
 * usage: once-runner LIBRARY MODULE
 */
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <stdio.h>

int main(int count, char **arguments)
{
    char file[PATH_MAX];
    if (count != 3)
        return 2;
    if (dlopen(arguments[1], RTLD_NOW) == NULL) {
        puts(dlerror());
        return 1;
    }
    const int result = hf_adopt_file(arguments[2], file, sizeof file);
    printf("%d %s\n", result, dlopen(file, RTLD_NOW) != NULL ? "loaded" : file);
    return 0;
}
