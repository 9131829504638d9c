/*
 * Opens what it is told on its standard input, and says what the dynamic linker made of it, so that
 * a run with homefree can be compared with one without.
 *
 * A line: an opener's path ("-": the program itself opens), a tab, the name that is opened. What is
 * opened stays open if the line begins with "+".
 */
#include "../modules/opener.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void *open_here(const char *file, int mode)
{
    void *handle = dlopen(file, mode);
    __asm__ volatile("" ::: "memory");
    return handle;
}

static void say(void *handle)
{
    struct link_map *map;
    if (handle != NULL && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
        printf("%s\n", map->l_name);
    else
        printf("%s\n", dlerror());
    fflush(stdout);
}

int main(void)
{
    char line[8192];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *name = strchr(line, '\t');
        if (name == NULL)
            return 2;
        *name++ = '\0';
        const bool stays = line[0] == '+';
        if (strcmp(line + stays, "-") == 0) {
            void *handle = open_here(name, RTLD_NOW);
            say(handle);
            if (handle != NULL && !stays)
                dlclose(handle);
            continue;
        }
        void *module = dlopen(line + stays, RTLD_NOW);
        opener_function *opener =
            module != NULL ? (opener_function *)dlsym(module, "opener") : NULL;
        if (opener == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        void *handle = opener()->open(name, RTLD_NOW);
        say(handle);
        if (handle != NULL && !stays)
            dlclose(handle);
        dlclose(module);
    }
    return 0;
}
