/*
 * A static program, position-independent or not, loads libhomefree and a module: what the module
 * frees of the heap's goes home. Such a program has no PT_PHDR, which tells where it was loaded.
 *
 * usage: static-host LIBHOMEFREE MODULE
 */
#include "../modules/user.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    void *heap = count == 3 ? dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    void *(*allocate)(size_t) = heap != NULL ? (void *(*)(size_t))dlsym(heap, "hf_malloc") : NULL;
    void (*release)(void *) = heap != NULL ? (void (*)(void *))dlsym(heap, "hf_free") : NULL;
    void *module = heap != NULL ? dlopen(arguments[2], RTLD_NOW) : NULL;
    user_function *function = module != NULL ? (user_function *)dlsym(module, "user") : NULL;
    int (*route)(void) = heap != NULL ? (int (*)(void))dlsym(heap, "hf_route") : NULL;
    if (allocate == NULL || release == NULL || route == NULL || function == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
    release(allocate(100));
    /* No slot leads to the program's own dlopen(). */
    if (route() < 0) {
        fprintf(stderr, "not routed\n");
        return EXIT_FAILURE;
    }
    const struct user *user = function();
    user->release(allocate(100));
    user->release(user->acquire(100));
    return EXIT_SUCCESS;
}
