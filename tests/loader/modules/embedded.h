/*
 * A module with an embedded allocator, whose functions it does not export.
 */
#ifndef HOMEFREE_TESTS_LOADER_MODULES_EMBEDDED_H
#define HOMEFREE_TESTS_LOADER_MODULES_EMBEDDED_H

#include <stddef.h>

struct embedded {
    void *(*acquire)(size_t size);
    size_t (*measure)(void *ptr);
};

typedef const struct embedded *embedded_function(void);

#endif
