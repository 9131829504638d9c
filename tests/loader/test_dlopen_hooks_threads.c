/*
 * Many threads load and unload modules while others allocate and free: each module is routed when
 * its dlopen() returns, nobody hangs, nothing is written into what is half loaded or gone.
 *
 * usage: test-dlopen-hooks-threads MODULE…       each is loaded by one thread
 */
#include "exchange.h"
#include "modules/user.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 16, FREEING = 2, ROUNDS = 60, LARGE = 1 << 20 };

static char **paths;
static int loading;
static atomic_bool over;
static atomic_int failures;

static void expect(bool condition, const char *what, const char *path)
{
    if (!condition) {
        fprintf(stderr, "%s: %s\n", path, what);
        failures++;
    }
}

static void *load_and_unload(void *argument)
{
    const char *path = argument;
    for (int i = 0; i < ROUNDS; i++) {
        void *handle = dlopen(path, (i % 2 == 0 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
        if (handle == NULL) {
            expect(false, dlerror(), path);
            break;
        }
        user_function *function = (user_function *)dlsym(handle, "user");
        const struct user *user = function();
        void *block = hf_malloc(LARGE);
        user->release(block);
        struct hf_owner owner = {.size = sizeof owner};
        hf_owner_of(block, &owner);
        /* Another thread may own the same pages by now. */
        expect(owner.block == NULL || owner.block == block, "hf_owner_of() names another block",
               path);
        block = user->resize(hf_malloc(48), 4800);
        expect(hf_owns(block), "realloc changed the owner", path);
        user->constant->release(block);
        user->release(user->acquire(100));
        expect(dlclose(handle) == 0, "dlclose", path);
    }
    return NULL;
}

static void *allocate_and_free(void *argument)
{
    (void)argument;
    while (!over) {
        exchange_with_libc(10000);
        expect(hf_route() >= 0, "hf_route", "");
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS_MAX + FREEING];
    paths = arguments + 1;
    loading = count - 1 < THREADS_MAX ? count - 1 : THREADS_MAX;
    guard_against_hanging(100);
    for (int i = 0; i < FREEING; i++)
        pthread_create(&threads[loading + i], NULL, allocate_and_free, NULL);
    for (int i = 0; i < loading; i++)
        pthread_create(&threads[i], NULL, load_and_unload, paths[i]);
    for (int i = 0; i < loading; i++)
        pthread_join(threads[i], NULL);
    over = true;
    for (int i = 0; i < FREEING; i++)
        pthread_join(threads[loading + i], NULL);
    /* All blocks came home: the rest is what the heap keeps for itself. */
    struct hf_stats stats = {.size = sizeof stats};
    expect(hf_stats(&stats) == 0 && stats.allocated < (uint64_t)64 << 20, "blocks were lost", "");
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
