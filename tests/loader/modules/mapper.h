/*
 * A module that carries the words of an allocator, and maps memory by every function there is.
 */
#ifndef HOMEFREE_TESTS_LOADER_MODULES_MAPPER_H
#define HOMEFREE_TESTS_LOADER_MODULES_MAPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mapper {
    void *(*map)(void *at, size_t size, int protection, int flags, int file, off_t offset);
    int (*unmap)(void *at, size_t size);
    void *(*remap)(void *at, size_t size, size_t new_size, int flags);
    void *(*move_break)(intptr_t increment);
    void *(*map_by_number)(void *at, size_t size, int protection, int flags, int file,
                           off_t offset);
    int (*unmap_by_number)(void *at, size_t size);
    long (*call_by_number)(long number, void *argument);
    /* The members below are only in the module with functions. */
    void *(*allocate)(size_t size);
    /* Calls syscall(2). *kept: whether the caller's stack is unchanged where a seventh argument
     * would be. */
    long (*call_and_look)(bool *kept, long number, void *a, size_t b, size_t c);
    const int *released, *resized, *measured; /* how often each function was called */
};

typedef const struct mapper *mapper_function(void);

#endif
