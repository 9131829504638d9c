/*
 * Frees blocks whose owner is another allocator, and ends.
 *   home MALLOC COUNT   blocks of the library MALLOC, which get home
 *   unloaded PLUGIN     blocks of a plugin's allocator after the plugin was closed, twice
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) void give(void *block)
{
    free(block);
    __asm__ volatile("");
}

static int home(const char *path, int count)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *(*take)(size_t) = library != NULL ? (void *(*)(size_t))dlsym(library, "malloc") : NULL;
    if (take == NULL)
        return 77;
    for (int i = 0; i < count; i++)
        give(take(1000));
    return 0;
}

static void *block_of(const char *path, void **plugin)
{
    *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *(*take)(void) = *plugin != NULL ? (void *(*)(void))dlsym(*plugin, "plugin_block") : NULL;
    return take != NULL ? take() : NULL;
}

static int unloaded(const char *path)
{
    void *plugin, *blocks[2];
    for (int i = 0; i < 2; i++) {
        blocks[i] = block_of(path, &plugin);
        if (blocks[i] == NULL || dlclose(plugin) != 0 || dlopen(path, RTLD_NOW | RTLD_NOLOAD))
            return 2;
        give(blocks[i]);
        if (strcmp(blocks[i], "plugin") != 0)
            return 3;
    }
    return 0;
}

int main(int count, char **arguments)
{
    int status = 2;
    if (count == 4 && strcmp(arguments[1], "home") == 0)
        status = home(arguments[2], atoi(arguments[3]));
    else if (count == 3 && strcmp(arguments[1], "unloaded") == 0)
        status = unloaded(arguments[2]);
    printf("ended\n");
    return status;
}
