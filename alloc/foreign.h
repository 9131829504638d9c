/*
 * Foreign pointers: who frees what the heap does not own.
 *
 * A pointer that a neighbour claims goes to that neighbour; every other goes to libc, by which is
 * meant malloc and free as libhomefree's own namespace sees them: a preloaded allocator's, if there
 * is one. libhomefree's own slots are never routed, so this never comes back here.
 */
#ifndef HOMEFREE_FOREIGN_H
#define HOMEFREE_FOREIGN_H

#include "internal.h"

struct hf_libc {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*realloc)(void *ptr, size_t size);
    void (*free)(void *ptr);
    size_t (*usable_size)(void *ptr);
};
const struct hf_libc *hf_libc(void);

/* An allocator that can be asked whether a pointer is its own. */
struct hf_neighbour {
    const char *allocator; /* "mimalloc", … ; static string */
    const char *object;    /* path; lives as long as the object, which is pinned */
    bool (*owns)(const struct hf_neighbour *self, const void *ptr);
    void *question; /* the allocator's own function that `owns` calls */
    void (*free)(void *ptr);
    void *(*realloc)(void *ptr, size_t size);
    size_t (*usable_size)(const void *ptr); /* may be NULL */
};

/* Adds one; the struct is copied. One caller at a time (routing's lock). Result: 0, or -ENOSPC
 * when HF_NEIGHBOURS_MAX are known. The object must never be unloaded. */
int hf_neighbour_add(const struct hf_neighbour *neighbour);
#define HF_NEIGHBOURS_MAX 8

/* The neighbour that claims a foreign pointer, or NULL. Lock-free. */
const struct hf_neighbour *hf_neighbour_of(const void *ptr);

/* For a foreign pointer, not NULL. */
void *hf_foreign_realloc(void *ptr, size_t size);
size_t hf_foreign_usable_size(const void *ptr);

#endif
