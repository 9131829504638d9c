/*
 * The pages of libhomefree's sealed tables, as its file says where they are.
 */
#ifndef HOMEFREE_TESTS_LOADER_RACES_SEALED_H
#define HOMEFREE_TESTS_LOADER_RACES_SEALED_H

#include <stdbool.h>
#include <stddef.h>

struct sealed {
    char *start;
    size_t size;
};

/* Finds the sealed pages; ends the program if there are none. */
struct sealed find_sealed(void);

/* Whether every page is "r--p" now. Calls only open, read and close. */
bool is_sealed(const struct sealed *sealed);

#endif
