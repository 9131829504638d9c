/*
 * See user.h. Compiled in many ways; with USER_WEAK its free is a weak reference.
 */
#include "user.h"

#include <malloc.h>
#include <stdlib.h>

#ifdef USER_WEAK
#    pragma weak free
#    pragma weak realloc
#    pragma weak malloc_usable_size
#endif

const struct user *user(void);

static void release(void *ptr)
{
    free(ptr);
}

static void *resize(void *ptr, size_t size)
{
    return realloc(ptr, size);
}

static void *resize_array(void *ptr, size_t count, size_t size)
{
    return reallocarray(ptr, count, size);
}

static size_t measure(void *ptr)
{
    return malloc_usable_size(ptr);
}

static void *acquire(size_t size)
{
    return malloc(size);
}

static int counted;

static void count(void *ptr)
{
    (void)ptr;
    counted++;
}

static const struct user_table constant = {free, realloc, free, free};
static struct user_table table = {free, realloc, free, free};

__attribute__((constructor)) static void change(void)
{
    table.changed = count;
}

__attribute__((visibility("default"))) const struct user *user(void)
{
    static const struct user functions = {
        acquire, release, resize, resize_array, measure, &constant, &table, count, &counted,
    };
    return &functions;
}
