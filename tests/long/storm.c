/*
 * Everything that races with routing, all at once for as long as it is told: threads that load and
 * unload modules (lazily bound and bound at once), make and empty namespaces, call through slots
 * that nobody has called before, map memory as an allocator, and fork children that look around.
 * Every block that a module frees is the heap's or libc's by turns; a wrong turn ends the process.
 *
 * usage: storm SECONDS MODULE...
 */
#include "../loader/modules/user.h"
#include "../loader/races/sealed.h"
#include "../support/exchange.h"

#include <dlfcn.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOADERS = 4, NAMESPACES = 2, ALLOCATORS = 2, FORKERS = 1 };

static char **paths;
static unsigned paths_count;
static atomic_bool over;
static atomic_ulong loads, namespaces, forks, rounds;
static struct sealed sealed;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "storm: %s: %s\n", what, detail);
    abort();
}

static void use(void *handle, const char *path)
{
    user_function *function = (user_function *)dlsym(handle, "user");
    if (function == NULL)
        fail(path, "no user()");
    const struct user *user = function();
    user->release(hf_malloc(1 + (size_t)rounds % 5000));
    user->release(user->acquire(100));
    /* While another thread takes long to fork, either block may be libc's (README, Honest limits).
     */
    char *block = hf_malloc(48);
    memset(block, 7, 48);
    block = user->resize(block, 4800);
    if (block == NULL || block[0] != 7 || block[47] != 7)
        fail(path, "realloc lost the contents");
    user->constant->release(block);
    user->table->release(hf_malloc(1 << 18));
    block = user->resize_array(user->resize(NULL, 10), 10, 10);
    if (hf_owns(block))
        fail(path, "libc's block became the heap's");
    user->release(block);
}

static void *load_and_unload(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument;
    while (!over) {
        state = state * 1103515245 + 12345;
        const char *path = paths[(state >> 16) % paths_count];
        void *handle = dlopen(path, ((state >> 8) % 2 != 0 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
        if (handle == NULL)
            fail(path, dlerror());
        use(handle, path);
        dlclose(handle);
        loads++;
    }
    return NULL;
}

static void *make_namespaces(void *argument)
{
    unsigned state = (unsigned)(uintptr_t)argument + 77;
    while (!over) {
        state = state * 1103515245 + 12345;
        const char *path = paths[(state >> 16) % paths_count];
        void *handle = dlmopen(LM_ID_NEWLM, path, RTLD_LAZY | RTLD_LOCAL);
        if (handle == NULL)
            continue; /* there is no static TLS left, or no namespace */
        use(handle, path);
        dlclose(handle);
        namespaces++;
    }
    return NULL;
}

static void *allocate_and_free(void *argument)
{
    (void)argument;
    while (!over) {
        exchange_with_libc(100000);
        if (hf_route() < 0)
            fail("hf_route()", "failed");
        rounds++;
    }
    return NULL;
}

/* A child has one thread and may inherit a held loader's lock, so it must not load. */
static void *fork_children(void *argument)
{
    (void)argument;
    while (!over) {
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
            fail("a child", text);
        }
        forks++;
    }
    return NULL;
}

int main(int count, char **arguments)
{
    void *(*const kinds[])(void *) = {load_and_unload, make_namespaces, allocate_and_free,
                                      fork_children};
    const int numbers[] = {LOADERS, NAMESPACES, ALLOCATORS, FORKERS};
    pthread_t threads[LOADERS + NAMESPACES + ALLOCATORS + FORKERS];
    int started = 0;
    if (count < 3) {
        fprintf(stderr, "usage: %s SECONDS MODULE...\n", arguments[0]);
        return 2;
    }
    const unsigned seconds = (unsigned)strtoul(arguments[1], NULL, 10);
    paths = arguments + 2;
    paths_count = (unsigned)count - 2;
    sealed = find_sealed();
    alarm(2 * seconds + 60); /* SIGALRM ends a deadlock */
    for (size_t kind = 0; kind < sizeof numbers / sizeof numbers[0]; kind++)
        for (int i = 0; i < numbers[kind]; i++, started++)
            if (pthread_create(&threads[started], NULL, kinds[kind],
                               (void *)(uintptr_t)(started + 1)) != 0)
                fail("pthread_create()", "failed");
    struct timespec until = {.tv_sec = seconds};
    while (nanosleep(&until, &until) != 0)
        ;
    over = true;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (!is_sealed(&sealed))
        fail("the tables", "not sealed at the end");
    printf("%lu loads, %lu namespaces, %lu forks, %lu rounds\n", (unsigned long)loads,
           (unsigned long)namespaces, (unsigned long)forks, (unsigned long)rounds);
    return EXIT_SUCCESS;
}
