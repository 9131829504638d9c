/*
 * Small blocks alone: alloc/spans without the seam and without jemalloc, on pages that come
 * straight from the region. What the seam's functions do around the core, these do in a line each.
 */
#ifndef HOMEFREE_TESTS_ALLOC_SPANS_CORE_H
#define HOMEFREE_TESTS_ALLOC_SPANS_CORE_H

#include "alloc/spans/between.h"
#include "alloc/spans/small.h"

#include <stdbool.h>
#include <stddef.h>

/* Starts a heap whose region grows to `size` bytes. */
void core_start(size_t size);

/* malloc(3); NULL if there is no memory. */
void *core_take(size_t size);
/* free(3): -1, or what is wrong. */
int core_give(void *ptr);

/* How often a thread answered hf_locals_ask(); atomic. */
extern unsigned core_answers;

/* Bytes that spans have from pages, and how many takes of pages the stand-in serves from now on. */
size_t core_pages_taken(void);
void core_pages_left(size_t takes);

/* As the handlers of fork do. */
void core_before_fork(void);
void core_in_parent(void);
void core_in_child(void);

#endif
