/* Programs that use all memory there is, and then go on: what they share. Run in children only. */
#ifndef HOMEFREE_TESTS_ALLOC_EXHAUST_H
#define HOMEFREE_TESTS_ALLOC_EXHAUST_H

#include "death.h"

#include <errno.h>
#include <homefree/homefree.h>
#include <string.h>

/* The list runs through the blocks themselves, so it needs no other memory. */
struct link {
    struct link *next;
    size_t size;
    unsigned char bytes[];
};

/* Allocates blocks of `size` bytes, each filled with its own pattern, until none is left. */
static inline struct link *exhaust(size_t size, size_t *count)
{
    struct link *first = NULL;
    for (*count = 0;; ++*count) {
        errno = 0;
        struct link *link = hf_malloc(size);
        if (link == NULL) {
            must(errno == ENOMEM);
            return first;
        }
        link->next = first;
        link->size = size;
        memset(link->bytes, (int)(*count % 251), size - sizeof *link);
        first = link;
    }
}

/* Checks the patterns of all blocks. */
static inline void check_links(const struct link *first, size_t count)
{
    for (; first != NULL; first = first->next) {
        count--;
        for (size_t i = 0; i < first->size - sizeof *first; i++)
            must(first->bytes[i] == count % 251);
    }
    must(count == 0);
}

static inline void free_links(struct link *first)
{
    while (first != NULL) {
        struct link *next = first->next;
        hf_free(first);
        first = next;
    }
}

/* Every allocating function must fail, and a block that could not be resized must be intact. */
static inline void must_all_fail(struct link *some, size_t size)
{
    void *out = &out;
    struct link *next = some->next;
    errno = 0;
    must(hf_calloc(1, size) == NULL && errno == ENOMEM);
    errno = 0;
    must(hf_aligned_alloc(4096, size) == NULL && errno == ENOMEM);
    must(hf_posix_memalign(&out, 4096, size) == ENOMEM && out == &out);
    errno = 0;
    must(hf_realloc(some, 64 * size) == NULL && errno == ENOMEM);
    must(some->next == next);
}

/* Exhausts the heap twice with blocks of this size; each time there must be at least `least`. */
static inline void exhaust_and_go_on(size_t size, size_t least)
{
    size_t count, again;
    struct link *first = exhaust(size, &count);
    must(count >= least);
    if (size >= 1 << 16)
        must_all_fail(first, size);
    check_links(first, count);
    free_links(first);
    first = exhaust(size, &again);
    must(again >= count - count / 4);
    check_links(first, again);
    free_links(first);
}

#endif
