/*
 * Opens an adopted module by every name that a program may have for it. test_names.py runs it.
 *
 * usage: runner NAME... (HOMEFREE_CONF=adopt:all, in the program's RUNPATH)
 */
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    void *first = NULL;
    for (int i = 1; i < count; i++) {
        void *handle = dlopen(arguments[i], RTLD_NOW);
        if (handle == NULL) {
            printf("%s: %s\n", arguments[i], dlerror());
            return 1;
        }
        first = first != NULL ? first : handle;
        int (*count_up)(void);
        *(void **)&count_up = dlsym(handle, "count_up");
        if (handle != first || count_up() != i) {
            printf("%s: another object than %s\n", arguments[i], arguments[1]);
            return 1;
        }
    }
    const char *(*load_beside)(void);
    *(void **)&load_beside = dlsym(first, "load_beside");
    const char *why = load_beside();
    if (why != NULL) {
        printf("%s\n", why);
        return 1;
    }
    void *(*give)(size_t);
    *(void **)&give = dlsym(first, "give");
    void *block = give(10);
    puts(hf_owns(block) ? "adopted" : "not adopted");
    return 0;
}
