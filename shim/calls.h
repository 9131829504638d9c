/*
 * What the calls of functions.def need besides libhomefree's functions: shared by the shim
 * (module.h) and by adoption (loader/adopted.c), which stand in for the same functions.
 *
 * Owns nothing. May be called at any stage.
 */
#ifndef HOMEFREE_CALLS_H
#define HOMEFREE_CALLS_H

#include <homefree/homefree.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static inline void *allocate_pages(size_t size)
{
    size_t page = page_size();
    if (size > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return hf_memalign(page, size == 0 ? page : (size + page - 1) & -page);
}

/* The buffer is smaller than the caller says: ends the process, as glibc does. */
static inline char *checked_getcwd(char *buffer, size_t size, size_t room)
{
    if (buffer != NULL && size > room)
        abort();
    return hf_getcwd(buffer, size);
}

#endif
