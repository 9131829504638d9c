/* The heap errors that programs make, as a table: each case is a small program, which says what it
 * does wrong and what the fatal line must say. */
#ifndef HOMEFREE_TESTS_ALLOC_CHECKS_ERRORS_H
#define HOMEFREE_TESTS_ALLOC_CHECKS_ERRORS_H

#include <stddef.h>

/* The functions that a case calls: the heap's, or libc's for comparison. */
struct family {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void (*free)(void *ptr);
    void (*free_sized)(void *ptr, size_t size);
    void (*free_aligned_sized)(void *ptr, size_t alignment, size_t size);
    size_t (*usable_size)(void *ptr);
};

struct error {
    const char *name;
    void (*make)(const struct family *heap, size_t size, size_t amount);
    const char *text; /* part of the fatal line with checks:full */
    size_t size, amount;
};

/* Stores the case with this number. Returns false past the last one. */
_Bool error_at(size_t number, struct error *out);

#endif
