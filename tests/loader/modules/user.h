/*
 * A module that knows nothing of homefree: it frees, resizes and measures what it is given, by
 * every kind of slot that a compiler makes.
 */
#ifndef HOMEFREE_TESTS_LOADER_MODULES_USER_H
#define HOMEFREE_TESTS_LOADER_MODULES_USER_H

#include <stddef.h>

/* Initialised variables with addresses of functions; a program may change them. */
struct user_table {
    void (*release)(void *ptr);
    void *(*resize)(void *ptr, size_t size);
    void (*for_program)(void *ptr); /* free; the program may store a function of its own here */
    void (*changed)(void *ptr); /* free at first; the module's constructor stores user_count here */
};

struct user {
    void *(*acquire)(size_t size);
    void (*release)(void *ptr);
    void *(*resize)(void *ptr, size_t size);
    void *(*resize_array)(void *ptr, size_t count, size_t size);
    size_t (*measure)(void *ptr);
    const struct user_table *constant; /* in read-only data: under RELRO */
    struct user_table *table;
    void (*count)(void *ptr); /* the module's own function in `changed` */
    int *counted;
};

typedef const struct user *user_function(void);

#endif
