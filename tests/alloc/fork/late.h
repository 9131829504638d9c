/* Programs that registered fork handlers before libhomefree came: their prepare steps run after all
 * of its own, their other steps before. What they share: libhomefree is loaded when late() says so,
 * and its functions are called through pointers. */
#ifndef TESTS_ALLOC_FORK_LATE_H
#define TESTS_ALLOC_FORK_LATE_H

#include "death.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void *(*aligned)(size_t alignment, size_t size);
    void (*free)(void *ptr);
    bool (*owns)(const void *ptr);
    size_t (*usable_size)(const void *ptr);
    FILE *(*open_memstream)(char **buffer, size_t *size);
} hf;

static inline void load_now(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    must(handle != NULL);
    must((*(void **)&hf.malloc = dlsym(handle, "hf_malloc")) != NULL);
    must((*(void **)&hf.calloc = dlsym(handle, "hf_calloc")) != NULL);
    must((*(void **)&hf.realloc = dlsym(handle, "hf_realloc")) != NULL);
    must((*(void **)&hf.aligned = dlsym(handle, "hf_aligned_alloc")) != NULL);
    must((*(void **)&hf.free = dlsym(handle, "hf_free")) != NULL);
    must((*(void **)&hf.owns = dlsym(handle, "hf_owns")) != NULL);
    must((*(void **)&hf.usable_size = dlsym(handle, "hf_usable_size")) != NULL);
    must((*(void **)&hf.open_memstream = dlsym(handle, "hf_open_memstream")) != NULL);
}

/* Every way to use the heap, through its slow paths too. */
static inline void use_the_heap(void)
{
    static const size_t sizes[] = {1, 100, 3000, 50000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *p = hf.malloc(sizes[i]), *q = hf.calloc(1, sizes[i]), *r = hf.aligned(4096, sizes[i]);
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

#endif
