/*
 * A module with an allocator inside that nobody else sees.
 */
#ifndef HOMEFREE_TESTS_LOADER_HOME_H
#define HOMEFREE_TESTS_LOADER_HOME_H

#include <stddef.h>

struct home {
    void *(*acquire)(size_t size);
    size_t (*measure)(void *ptr);
};

typedef const struct home *home_function(void);

#endif
