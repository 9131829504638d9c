/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libc's malloc family as libhomefree's own namespace binds it; another allocator may serve these
 * names. homefree uses it for memory that must not come from the heap, and for blocks that no known
 * allocator owns.
 *
 * libhomefree's own GOT slots are never routed, so a call through the table never re-enters
 * homefree. A copy loaded later may be bound to stubs, and forwards. In libhomefree.so.1 the table
 * is constant (libc_functions.c); a library that exports malloc itself has another one
 * (libc_functions_preload.c).
 */
#ifndef HOMEFREE_ALLOC_BASE_LIBC_FUNCTIONS_H
#define HOMEFREE_ALLOC_BASE_LIBC_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct hf_libc {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void (*free)(void *ptr);
    size_t (*usable_size)(void *ptr);
};
extern const struct hf_libc hf_libc_functions __attribute__((visibility("hidden")));

/* Whether the library that this is linked into exports malloc itself. */
extern const bool hf_whole_process __attribute__((visibility("hidden")));

/* Completes the table, once. Called first when the heap starts, under the start lock. */
void hf_libc_start(void);

/* Whether the table holds the functions of an object in front of a library that exports malloc
 * itself: then that object serves the process. */
bool hf_libc_is_replaced(void);

static inline const struct hf_libc *hf_libc(void)
{
    return &hf_libc_functions;
}

#endif
