/*
 * Everything that races with routing, all at once for as long as it is told: threads that load and
 * unload modules (lazily bound and bound at once), make and empty namespaces, call through slots
 * that nobody has called before, map memory as an allocator, and fork children that look around.
 * Every block that a module frees is the heap's or libc's by turns; a wrong turn ends the process.
 */
#include "../loader/races/sealed.h"
#include "../support/exchange.h"
#include "storms.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOADERS = 4, NAMESPACES = 2, ALLOCATORS = 2, FORKERS = 1 };

static atomic_ulong rounds;
static struct sealed sealed;
static bool preloaded;

static void use(void *handle, const char *path)
{
    user_function *function = (user_function *)dlsym(handle, "user");
    if (function == NULL)
        storm_failed(path, "no user()");
    const struct user *user = function();
    user->release(hf_malloc(1 + (size_t)rounds % 5000));
    user->release(user->acquire(100));
    /* While another thread takes long to fork, either block may be libc's (docs/limits.md).
     */
    char *block = hf_malloc(48);
    memset(block, 7, 48);
    block = user->resize(block, 4800);
    if (block == NULL || block[0] != 7 || block[47] != 7)
        storm_failed(path, "realloc lost the contents");
    user->constant->release(block);
    user->table->release(hf_malloc(1 << 18));
    block = user->resize_array(user->resize(NULL, 10), 10, 10);
    if (hf_owns(block) && !preloaded)
        storm_failed(path, "libc's block became the heap's");
    user->release(block);
}

static void *load_and_unload(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument;
    while (!storm_over) {
        state = state * 1103515245 + 12345;
        const char *path = modules[(state >> 16) % module_count];
        void *handle = dlopen(path, ((state >> 8) % 2 != 0 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
        if (handle == NULL)
            storm_failed(path, dlerror());
        use(handle, path);
        dlclose(handle);
        figures.loads++;
    }
    return NULL;
}

static void *make_namespaces(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument + 77;
    if (dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL)
        return NULL; /* other namespaces are not seen before glibc 2.35 */
    while (!storm_over) {
        state = state * 1103515245 + 12345;
        const char *path = modules[(state >> 16) % module_count];
        void *handle = dlmopen(LM_ID_NEWLM, path, RTLD_LAZY | RTLD_LOCAL);
        if (handle == NULL)
            continue; /* there is no static TLS left, or no namespace */
        use(handle, path);
        dlclose(handle);
        figures.namespaces++;
    }
    return NULL;
}

static void *allocate_and_free(void *argument)
{
    (void)argument;
    while (!storm_over) {
        exchange_with_libc(100000);
        if (hf_route() < 0)
            storm_failed("hf_route()", "failed");
        rounds++;
        figures.routes++;
        figures.operations += 44;
    }
    return NULL;
}

/* A child has one thread and may inherit a held loader's lock, so it must not load. */
static void *fork_children(void *argument)
{
    (void)argument;
    while (!storm_over) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            for (size_t size = 1; size < 10000; size = size * 3 + 1)
                free(hf_malloc(size));
            _exit(is_sealed(&sealed) ? 0 : 1);
        }
        if (child < 0)
            continue;
        if (waitpid(child, &status, 0) != child || status != 0) {
            char text[32];
            snprintf(text, sizeof text, "status %#x", (unsigned)status);
            storm_failed("a child", text);
        }
        figures.forks++;
    }
    return NULL;
}

void storm_races(void)
{
    void *(*const kinds[])(void *) = {load_and_unload, make_namespaces, allocate_and_free,
                                      fork_children};
    const int numbers[] = {LOADERS, NAMESPACES, ALLOCATORS, FORKERS};
    pthread_t threads[LOADERS + NAMESPACES + ALLOCATORS + FORKERS];
    int started = 0;
    sealed = find_sealed();
    preloaded = heap_serves_all();
    for (size_t kind = 0; kind < sizeof numbers / sizeof numbers[0]; kind++)
        for (int i = 0; i < numbers[kind]; i++, started++)
            if (pthread_create(&threads[started], NULL, kinds[kind],
                               (void *)(uintptr_t)(started + 1)) != 0)
                storm_failed("pthread_create()", "failed");
    storm_wait();
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (!is_sealed(&sealed))
        storm_failed("the tables", "not sealed at the end");
}
