/* Blocks of libc and of the heap, each freed by the other's function. */
#ifndef HOMEFREE_TESTS_SUPPORT_EXCHANGE_H
#define HOMEFREE_TESTS_SUPPORT_EXCHANGE_H

#include <homefree/homefree.h>
#include <stdlib.h>

/* Sizes from 1 to below `limit`. */
static inline void exchange_with_libc(size_t limit)
{
    for (size_t size = 1; size < limit; size = size * 3 + 1) {
        free(hf_malloc(size));
        hf_free(malloc(size));
    }
}

#endif
