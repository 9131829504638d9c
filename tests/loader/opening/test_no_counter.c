/*
 * A process that has forbidden itself the processor's time stamp counter (PR_SET_TSC) loads a
 * module, allocates and ends. Reading the counter raises SIGSEGV, and libc's clocks read it.
 *
 * usage: test-no-counter MODULE [LIBHOMEFREE]
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    if (argc > 2 && dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) {
        puts("this processor or kernel does not forbid the counter");
        return 77;
    }
    void *module = dlopen(argv[1], RTLD_NOW);
    if (module == NULL)
        return 2;
    for (size_t i = 0; i < 20000; i++)
        free(malloc(i));
    return dlclose(module);
}
