/* What module.c exports. */
#ifndef HOMEFREE_TESTS_DIAGNOSE_MODULES_MODULE_H
#define HOMEFREE_TESTS_DIAGNOSE_MODULES_MODULE_H

#include <stddef.h>
#include <stdio.h>

void *module_take(size_t size);
void module_give(void *ptr);

/* Frees what is no block. */
void module_fault(void);

/* Follows a null pointer, with a block at hand. */
size_t module_misses(void *ptr);

/* A line whose block getline() gets from the module and enlarges. */
char *module_line(FILE *stream);

#endif
