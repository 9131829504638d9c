/*
 * Opens libraries on a thread whose stack is as small as threads may have, and tells how deep into
 * it each dlopen() went. Run alone and with libhomefree preloaded: what works alone must work with
 * it, and the difference is what homefree takes.
 *
 * usage: stack BYTES FILE...
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PATTERN = 0xa5 };

struct job {
    const char *file;
    uintptr_t start; /* the stack pointer at the call of dlopen() */
    void *handle;
};

static void *open_it(void *argument)
{
    struct job *job = argument;
    job->start = (uintptr_t)__builtin_frame_address(0);
    job->handle = dlopen(job->file, RTLD_NOW);
    __asm__ volatile("" ::: "memory");
    return NULL;
}

int main(int count, char **arguments)
{
    const size_t size = count > 2 ? strtoul(arguments[1], NULL, 10) : 0;
    const size_t page = 4096;
    unsigned char *stack = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (size < page || stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0)
        return 2;
    for (int i = 2; i < count; i++) {
        struct job job = {.file = arguments[i]};
        pthread_attr_t attributes;
        pthread_t thread;
        memset(stack + page, PATTERN, size);
        pthread_attr_init(&attributes);
        if (pthread_attr_setstack(&attributes, stack + page, size) != 0 ||
            pthread_create(&thread, &attributes, open_it, &job) != 0 ||
            pthread_join(thread, NULL) != 0)
            return 2;
        pthread_attr_destroy(&attributes);
        const unsigned char *deepest = stack + page;
        while (*deepest == PATTERN)
            deepest++;
        printf("%zu of %zu\t%s\n", (size_t)(job.start - (uintptr_t)deepest),
               (size_t)(job.start - (uintptr_t)(stack + page)),
               job.handle != NULL ? job.file : dlerror());
        fflush(stdout);
    }
    return 0;
}
