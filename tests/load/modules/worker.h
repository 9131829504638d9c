/*
 * A module that knows nothing of homefree and allocates in every way that the test knows; compiled
 * in many ways.
 */
#ifndef HOMEFREE_TESTS_LOAD_MODULES_WORKER_H
#define HOMEFREE_TESTS_LOAD_MODULES_WORKER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct worker_way {
    const char *name;
    void *(*make)(void);         /* returns a block */
    void (*release)(void *made); /* frees it as the module would */
};

struct worker {
    const struct worker_way *ways; /* the last one has no name */
    void *(*resize)(void *block, size_t size);
    void *(*take)(size_t size); /* by malloc or operator new; NULL if there is no memory */
    /* Variables that hold the addresses of malloc and realloc, and one that the program may
     * change. */
    void *(*const *constant_malloc)(size_t size);
    void *(**variable_malloc)(size_t size);
    void *(**changed_malloc)(size_t size);
};

typedef const struct worker *worker_function(void);
worker_function worker;

#ifdef __cplusplus
}
#endif

#endif
