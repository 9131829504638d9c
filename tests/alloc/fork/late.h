/* Programs that registered fork handlers before libhomefree came: their prepare steps run after all
 * of its own, their other steps before. What they share: libhomefree is loaded when late() says so,
 * and its functions are called through pointers. */
#ifndef HOMEFREE_TESTS_ALLOC_FORK_LATE_H
#define HOMEFREE_TESTS_ALLOC_FORK_LATE_H

#include "death.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct hf_stats;

/* The functions that the tests use: result, name without hf_, parameters. */
#define LATE_FUNCTIONS(FUNCTION)                                     \
    FUNCTION(void *, malloc, (size_t size))                          \
    FUNCTION(void *, calloc, (size_t count, size_t size))            \
    FUNCTION(void *, realloc, (void *ptr, size_t size))              \
    FUNCTION(void *, aligned_alloc, (size_t alignment, size_t size)) \
    FUNCTION(void, free, (void *ptr))                                \
    FUNCTION(bool, owns, (const void *ptr))                          \
    FUNCTION(size_t, usable_size, (const void *ptr))                 \
    FUNCTION(int, stats, (struct hf_stats * out))                    \
    FUNCTION(FILE *, open_memstream, (char **buffer, size_t *size))

static struct {
#define FUNCTION(result, name, parameters) result(*name) parameters;
    LATE_FUNCTIONS(FUNCTION)
#undef FUNCTION
} hf;

static inline void load_now(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    must(handle != NULL);
#define FUNCTION(result, name, parameters) \
    must((*(void **)&hf.name = dlsym(handle, "hf_" #name)) != NULL);
    LATE_FUNCTIONS(FUNCTION)
#undef FUNCTION
}

/* Calls the heap in every way, including its slow paths. */
static inline void use_the_heap(void)
{
    static const size_t sizes[] = {1, 100, 3000, 50000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = hf.malloc(sizes[i]), *q = hf.calloc(1, sizes[i]),
             *r = hf.aligned_alloc(4096, sizes[i]);
        must(p != NULL && q != NULL && r != NULL && (size_t)r % 4096 == 0);
        must(q[0] == 0 && q[sizes[i] - 1] == 0);
        must(hf.usable_size(p) >= sizes[i] && hf.usable_size(r) >= sizes[i]);
        memset(p, 7, sizes[i]);
        p = hf.realloc(p, 2 * sizes[i]);
        must(p != NULL && p[0] == 7 && p[sizes[i] - 1] == 7);
        p = hf.realloc(p, 1);
        must(p != NULL && p[0] == 7);
        hf.free(p);
        hf.free(q);
        must(hf.realloc(r, 0) == NULL);
    }
}

static inline void reap(pid_t child)
{
    int status;
    must(child > 0 && waitpid(child, &status, 0) == child);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Forks while a thread runs `other`, which comes to the barrier where it is in the way; `meeting`
 * is set until the fork is over. Result: as fork(2). */
static inline pid_t fork_beside(pthread_t *thread, void *(*other)(void *), atomic_bool *meeting,
                                pthread_barrier_t *barrier)
{
    *meeting = true;
    must(pthread_create(thread, NULL, other, NULL) == 0);
    pthread_barrier_wait(barrier);
    pid_t child = fork();
    *meeting = false;
    return child;
}

#endif
