/*
 * Loads a module from its release-only copy: its allocator serves it, and what is not its own goes
 * home. test_release_only.py runs it.
 *
 * usage: runner MODE FILE
 *   crossings  on one thread
 *   threads    on 16 threads
 *   foreign    like crossings, for an allocator whose blocks nobody can tell from libc's
 *   plain      dlopen() of the file itself, and blocks that do not cross
 */
#include "../hidden/inner.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool known; /* the module's blocks can be told from others, so they also go home to it */

#define must(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))

static void fail(int line, const char *condition)
{
    fprintf(stderr, "runner.c:%d: %s\n", line, condition);
    _exit(1);
}

static void cross(const struct inner *module)
{
    module->free_strdup();
    module->take(NULL);
    for (size_t size = 1; size < 300000; size = size * 3 + 1) {
        char *block = module->give(size);
        must(block != NULL && !hf_owns(block));
        memset(block, 1, size);
        must(module->measure == NULL || module->measure(block) >= size);
        block = module->resize(block, 2 * size);
        must(!hf_owns(block) && block[size - 1] == 1);
        module->take(block);
        module->take(hf_malloc(size));
        module->take(malloc(size));
        block = hf_malloc(size);
        memset(block, 2, size);
        must(module->measure == NULL || module->measure(block) >= size);
        block = module->resize(block, size + 100);
        must(block != NULL && block[size - 1] == 2);
        module->take(block);
        block = module->resize(malloc(size), size + 100);
        must(block != NULL);
        module->take(block);
        module->take(module->give_zeroed(3, size));
        module->take(module->give_aligned(64, 64 * size));
        if (known) {
            hf_free(module->give(size));
            free(module->give(size));
            block = hf_realloc(module->give(size), size + 200);
            must(block != NULL);
            hf_free(block);
        }
        if (module->give_object != NULL)
            module->take_object(module->give_object());
    }
    if (module->grow_string != NULL)
        must(module->grow_string() && module->throws());
}

static void *thread(void *module)
{
    for (int i = 0; i < 10; i++)
        cross(module);
    return NULL;
}

int main(int count, char **arguments)
{
    enum { COUNT = 16 };
    char copy[PATH_MAX];
    pthread_t running[COUNT];
    if (count != 3)
        return 2;
    const bool plain = strcmp(arguments[1], "plain") == 0;
    const int result = plain ? 1 : hf_adopt_file(arguments[2], copy, sizeof copy);
    if (result != 1) {
        fprintf(stderr, "hf_adopt_file: %d: %s\n", result, copy);
        return 1;
    }
    void *handle = dlopen(plain ? arguments[2] : copy, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    must(plain || hf_adopt(handle) >= 0);
    const struct inner *(*function)(void);
    *(void **)&function = dlsym(handle, "inner");
    const struct inner *module = function();
    if (plain) {
        module->take(module->give(100));
        puts("done");
        return 0;
    }
    known = strcmp(arguments[1], "foreign") != 0;
    if (strcmp(arguments[1], "threads") == 0) {
        for (int i = 0; i < COUNT; i++)
            must(pthread_create(&running[i], NULL, thread, (void *)(size_t)module) == 0);
        for (int i = 0; i < COUNT; i++)
            pthread_join(running[i], NULL);
    }
    cross(module);
    puts("done");
    return 0;
}
