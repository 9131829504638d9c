/*
 * A plugin for RTLD_DEEPBIND: it allocates and frees as its own scope says.
 */
#ifndef HOMEFREE_TESTS_LOADER_SERVING_PLUGIN_H
#define HOMEFREE_TESTS_LOADER_SERVING_PLUGIN_H

#include <stddef.h>

struct plugin_table {
    void (*release)(void *ptr);
};

struct plugin {
    void *(*acquire)(size_t size);
    void (*release)(void *ptr);
    void *(*resize)(void *ptr, size_t size);
    size_t (*measure)(void *ptr);
    const struct plugin_table *constant;
    void *(*find)(const char *name);  /* dlsym(RTLD_DEFAULT, name), called by the plugin */
    void *(*find_next_to_libc)(void); /* the plugin's malloc */
};

typedef const struct plugin *plugin_function(void);

#endif
