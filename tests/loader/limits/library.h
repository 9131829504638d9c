/*
 * What the libraries of these tests export. Owns nothing.
 */
#ifndef HOMEFREE_TESTS_LOADER_LIMITS_LIBRARY_H
#define HOMEFREE_TESTS_LOADER_LIMITS_LIBRARY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

void *library_malloc(size_t size);
void *library_calloc(size_t size);
void *library_aligned(size_t alignment, size_t size);
void *library_realloc(void *block, size_t size);
void *library_reallocf(void *block, size_t size);
char *library_strdup(const char *text);
void library_free(void *block);
/* The block; 1 in place of it if std::bad_alloc came. */
void *library_new(size_t size);
void library_delete(void *block);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
