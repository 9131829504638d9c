/*
 * See asker.c.
 */
#ifndef HOMEFREE_TESTS_LOADER_MODULES_ASKER_H
#define HOMEFREE_TESTS_LOADER_MODULES_ASKER_H

#include <stddef.h>

struct asker {
    void (*release)(void *ptr);
    void *(*resize)(void *ptr, size_t size);
    void *(*find)(const char *name); /* dlsym(RTLD_DEFAULT, name), called by the module */
};

typedef const struct asker *asker_function(void);

#endif
