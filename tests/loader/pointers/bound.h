/* A C++ library that needs an allocator's library, and whose calls RTLD_DEEPBIND binds to it. */
#ifndef HOMEFREE_TESTS_LOADER_POINTERS_BOUND_H
#define HOMEFREE_TESTS_LOADER_POINTERS_BOUND_H

#include <stddef.h>

struct bound {
    void *(*acquire)(size_t size);
    void *(*resize)(void *ptr, size_t size);
    void (*releases[4])(void *ptr); /* free and forms of operator delete */
};

typedef const struct bound *bound_function(void);

#endif
