/*
 * libc's allocator, as libhomefree's own namespace sees it: the functions that another allocator
 * may serve, for memory that must not be the heap's and for blocks that nobody else owns.
 *
 * libhomefree's own slots are never routed, so a call through this table never comes back here. A
 * second copy that is loaded later may be bound to stubs, and forwards.
 */
#ifndef HOMEFREE_LIBC_FUNCTIONS_H
#define HOMEFREE_LIBC_FUNCTIONS_H

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

static inline const struct hf_libc *hf_libc(void)
{
    return &hf_libc_functions;
}

#endif
