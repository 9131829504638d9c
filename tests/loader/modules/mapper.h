/*
 * A module that carries the words of an allocator, and maps memory by every function there is.
 */
#ifndef HOMEFREE_TESTS_LOADER_MAPPER_H
#define HOMEFREE_TESTS_LOADER_MAPPER_H

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
    /* Only in the one with functions: how often each was called. */
    void *(*allocate)(size_t size);
    const int *released, *resized, *measured;
};

typedef const struct mapper *mapper_function(void);

#endif
