/*
 * See opener.c.
 */
#ifndef HOMEFREE_TESTS_LOADER_MODULES_OPENER_H
#define HOMEFREE_TESTS_LOADER_MODULES_OPENER_H

struct opener {
    void *(*open)(const char *file, int mode);
    void *(*open_in_new_namespace)(const char *file, int mode);
    void *(*symbol)(void *handle, const char *name);
    void *(*versioned_symbol)(void *handle, const char *name, const char *version);
    char *(*error)(void);
    int (*close)(void *handle);
};

typedef const struct opener *opener_function(void);

#endif
