/*
 * Threads allocate and free in a module without a pause, while its allocator gets guards. From then
 * on they also free there what libc and the heap allocated. Nothing may fail.
 *
 * usage: storm FILE THREADS CYCLES
 *   prints the reason if the module cannot be guarded while it is loaded, and "done"
 */
#include "../hidden/inner.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS_MAX = 256 };

static const struct inner *module;
static long cycles;
static atomic_long running;
static atomic_bool guarded, refused;

#define must(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))

static void fail(int line, const char *condition)
{
    fprintf(stderr, "storm.c:%d: %s\n", line, condition);
    _exit(1);
}

static void *hammer(void *unused)
{
    (void)unused;
    bool counted = false;
    for (long i = 0; i < cycles || !(guarded || refused); i++) {
        char *block = module->give(1 + (size_t)i % 100);
        must(block != NULL);
        *block = 1;
        if (i % 7 == 0) {
            block = module->resize(block, 112);
            must(*block == 1);
        }
        must(module->measure == NULL || module->measure(block) > 0);
        module->take(block);
        if (guarded && i % 16 == 0) {
            module->free_strdup();
            module->take(hf_malloc(40));
            char *other = module->resize(hf_malloc(40), 100);
            module->take(other);
        }
        if (!counted && i == 10) {
            running++;
            counted = true;
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    char text[PATH_MAX];
    pthread_t threads[THREADS_MAX];
    if (count != 4)
        return 2;
    const int wanted = atoi(arguments[2]);
    cycles = atol(arguments[3]);
    void *handle = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL || wanted < 1 || wanted > THREADS_MAX) {
        fprintf(stderr, "%s\n", handle == NULL ? dlerror() : "threads");
        return 1;
    }
    const struct inner *(*function)(void);
    *(void **)&function = dlsym(handle, "inner");
    module = function();
    /* For a module with -DLOW. */
    must(mmap((void *)0x20000000000, 64 << 20, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED);
    for (int i = 0; i < wanted; i++)
        must(pthread_create(&threads[i], NULL, hammer, NULL) == 0);
    while (running < wanted)
        sched_yield();
    const int result = hf_adopt_file(arguments[1], text, sizeof text);
    if (result == 2) {
        must(strcmp(text, arguments[1]) == 0);
        must(hf_adopt_file(arguments[1], text, sizeof text) == 2);
        guarded = true;
    } else {
        char again[PATH_MAX];
        must(hf_adopt_file(arguments[1], again, sizeof again) == result);
        must(strcmp(again, text) == 0);
        refused = true;
        printf("%d %s\n", result, text);
    }
    for (int i = 0; i < wanted; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
