/*
 * What a program hands to a module's constructor, and what that gives back.
 */
#ifndef HOMEFREE_TESTS_LOADER_RACES_BORN_H
#define HOMEFREE_TESTS_LOADER_RACES_BORN_H

#include <stddef.h>

struct gift {
    /* Heap blocks, or NULL. */
    void *called, *pointed, *threaded, *resized, *deleted;
    size_t resized_to;
    /* Memory that the module maps, as an allocator does. */
    void *mapped;
    int ran;
};

/* Defined in the program. */
extern struct gift gift;

enum { BORN_MAPPED = 1 << 20 };

#endif
