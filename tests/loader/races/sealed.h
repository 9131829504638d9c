/*
 * The pages of libhomefree's sealed tables, as its file says where they are.
 */
#ifndef HOMEFREE_TESTS_LOADER_SEALED_H
#define HOMEFREE_TESTS_LOADER_SEALED_H

#include <stdbool.h>
#include <stddef.h>

struct sealed {
    char *start;
    size_t size;
};

/* Ends the program where there are none. */
struct sealed find_sealed(void);

/* Whether every page is "r--p", from a fresh look. Calls open, read and close alone. */
bool is_sealed(const struct sealed *sealed);

#endif
