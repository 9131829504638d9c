/*
 * One side of the model: a shared object that allocates, frees, resizes and measures. What it calls
 * is decided by how it is linked: libc's functions, the heap's, or those of a hidden allocator.
 * With MODEL_NAMED it calls the functions of an allocator by that allocator's names.
 */
#ifndef HOMEFREE_TESTS_MODEL_SIDE_H
#define HOMEFREE_TESTS_MODEL_SIDE_H

#include <stddef.h>

/* The names are those of reference.py. */
enum model_kind {
    MODEL_MALLOC,
    MODEL_CALLOC,
    MODEL_ALIGNED, /* to MODEL_ALIGNMENT bytes */
    MODEL_STRDUP,
    MODEL_NEW,
    MODEL_NEW_ARRAY,
    MODEL_KINDS
};
#define MODEL_ALIGNMENT 64

struct model_functions {
    void *(*acquire)(enum model_kind kind, size_t size); /* NULL: failed */
    void (*release)(enum model_kind kind, void *block);
    void *(*resize)(void *block, size_t size);
    size_t (*measure)(void *block);
};

#ifdef __cplusplus
extern "C"
#endif
    __attribute__((visibility("default"))) const struct model_functions *
    model_side(void);

#endif
