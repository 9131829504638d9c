/* What test_options_privileged.c makes setuid: loads the library that argv[1] names, and prints
 * whether the process is privileged and how large the heap's region is. */
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    int (*stats)(struct hf_stats *);
    *(void **)&stats = dlsym(library, "hf_stats");
    struct hf_stats now = {.size = sizeof now};
    if (stats == NULL || stats(&now) != 0)
        return 4;
    fprintf(stderr, "secure %lu region %llu\n", getauxval(AT_SECURE),
            (unsigned long long)now.region_reserved);
    return 0;
}
