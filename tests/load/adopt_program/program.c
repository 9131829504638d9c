/*
 * A program with an allocator linked in as its malloc, and a plugin: the one frees what the other
 * has allocated. The program's calls of its own free() go through no slot. Loads libhomefree first
 * if it is named, and then asks it to adopt the plugin, which must be refused.
 *
 * usage: program shared|deep PLUGIN [LIBHOMEFREE]
 */
#include "../modules/worker.h"
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuses(void *homefree, void *plugin, const char *path)
{
    char text[4096] = "";
    int (*adopt)(void *) = (int (*)(void *))symbol_of(homefree, "hf_adopt");
    int (*adopt_file)(const char *, char *, size_t) =
        (int (*)(const char *, char *, size_t))symbol_of(homefree, "hf_adopt_file");
    return adopt(plugin) == -ENOTSUP && adopt_file(path, text, sizeof text) == -ENOTSUP &&
           strstr(text, "malloc of its own") != NULL;
}

int main(int count, char **arguments)
{
    void *homefree = count == 4 ? load(arguments[3], RTLD_NOW) : NULL;
    const int deep = strcmp(arguments[1], "deep") == 0;
    void *plugin = load(arguments[2], RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
    const struct worker *worker = ((worker_function *)symbol_of(plugin, "worker"))();
    for (const struct worker_way *way = worker->ways; way->name != NULL; way++) {
        way->release(way->make());
        /* Bound to libc, it allocates there, as without homefree. */
        if (!deep)
            free(way->make());
    }
    for (size_t size = 8; size < 4 << 20; size *= 3) {
        char *block = worker->resize(strcpy(malloc(size), "content"), 2 * size);
        if (strcmp(block, "content") != 0)
            return 1;
        free(block);
        if (!deep)
            free(realloc(worker->take(size), 2 * size));
    }
    if (homefree != NULL && !refuses(homefree, plugin, arguments[2]))
        return 2;
    puts("fine");
    return 0;
}
