/*
 * What a module with a hidden allocator offers to a test. Every function calls the malloc family
 * inside of the module.
 */
#ifndef HOMEFREE_TESTS_LOAD_HIDDEN_INNER_H
#define HOMEFREE_TESTS_LOAD_HIDDEN_INNER_H

#include <stdbool.h>
#include <stddef.h>

struct inner {
    void (*free_strdup)(void); /* frees what libc allocated */
    void *(*give)(size_t size);
    void *(*give_zeroed)(size_t count, size_t size);
    void *(*give_aligned)(size_t alignment, size_t size);
    void *(*resize)(void *ptr, size_t size);
    size_t (*measure)(void *ptr);
    void (*take)(void *ptr);
    void *(*give_extended)(size_t size, bool zeroed, size_t alignment); /* mallocx, or NULL */
    int (*tune)(void);                                                  /* mallctl, or NULL */
    bool (*grow_string)(void);   /* libstdc++ grows and frees a string; or NULL */
    bool (*throws)(void);        /* operator new fails with bad_alloc; or NULL */
    void *(*give_object)(void);  /* operator new, or NULL */
    void (*take_object)(void *); /* operator delete, or NULL */
};

/* Each module defines it. */
#ifdef __cplusplus
extern "C"
#endif
    const struct inner *
    inner(void);

#endif
