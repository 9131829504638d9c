/*
 * One side of a boundary: a shared object that allocates with every function its language has, and
 * frees with every function. The matrix loads two of them and lets one free what the other
 * allocated. side.cc is compiled as C and as C++; how it is linked decides whose functions it
 * calls.
 */
#ifndef HOMEFREE_TESTS_MATRIX_SIDE_H
#define HOMEFREE_TESTS_MATRIX_SIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Functions of a group may free what functions of the same group allocated. */
enum side_group { SIDE_MALLOC, SIDE_NEW, SIDE_NEW_ARRAY, SIDE_NEW_ALIGNED, SIDE_NEW_ARRAY_ALIGNED };

struct side_allocate {
    const char *name; /* NULL ends the table */
    enum side_group group;
    void *(*call)(size_t size); /* size bytes or more, contents undefined; NULL: failed */
};

/* Whether the first `size` bytes of a block are as the runner wrote them. */
typedef bool side_intact(const void *ptr, size_t size);

struct side_release {
    const char *name;
    enum side_group group;
    /* Frees the block. Functions that resize it first check that its contents moved along. */
    bool (*call)(void *ptr, size_t size, side_intact *intact);
};

struct side {
    const struct side_allocate *allocates;
    const struct side_release *releases;
    /* Has the side's destructor (its DT_FINI_ARRAY) call a function. */
    void (*at_unload)(void (*function)(void));
};

#ifdef __cplusplus
extern "C"
#endif
    /* What a side exports; nothing else. */
    __attribute__((visibility("default"))) const struct side *
    matrix_side(void);

#endif
