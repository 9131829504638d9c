/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Helpers that the calls in functions.def need besides libhomefree's functions; shared by the shim
 * (module.h) and by the loader's replacements of the same functions
 * (loader/interpose/replacements.c).
 *
 * Owns nothing. Callable at any stage.
 */
#ifndef HOMEFREE_SHIM_CALLS_H
#define HOMEFREE_SHIM_CALLS_H

#include <homefree/homefree.h>

#include <errno.h>
#include <stdarg.h>
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

/* The body of a variadic function: a call with the arguments after `last` in the va_list `ap`. */
#define VARIADIC_BODY(last, call) \
    {                             \
        va_list ap;               \
        va_start(ap, last);       \
        int length = call;        \
        va_end(ap);               \
        return length;            \
    }

/* Aborts, as glibc does, if the buffer is smaller than the caller says. */
static inline char *checked_getcwd(char *buffer, size_t size, size_t capacity)
{
    if (buffer != NULL && size > capacity)
        abort();
    return hf_getcwd(buffer, size);
}

#endif
