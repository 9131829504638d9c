/*
 * A library that is opened with RTLD_DEEPBIND and needs an allocator's library is bound to that
 * one, and gets blocks of the process's malloc (flux-core 5479): strings of libc's, whatever its
 * callers hand over. They go home, from free() and from operator delete.
 *
 * usage: test-bound before|after LIBHOMEFREE BOUND ALLOCATOR
 *   before     the library is opened before libhomefree, unless that is preloaded
 *   ALLOCATOR  the file that the library's allocator is in
 */
#include "bound.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *order, *homefree_path, *bound_path, *allocator;

static const struct bound *bound;
static void *(*new)(size_t size);

enum { SIZES = 19, COUNT = 3000 };

static size_t size_of(size_t i)
{
    return (size_t)24 << i % SIZES;
}

static void open_library(void)
{
    void *handle = dlopen(bound_path, RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
    if (handle == NULL && strstr(dlerror(), allocator) != NULL) {
        printf("%s is not installed\n", allocator);
        exit(SKIPPED);
    }
    bound = ((bound_function *)symbol_of(handle, "bound"))();
}

static void set_up(void)
{
    if (strcmp(order, "before") == 0)
        open_library();
    (void)load(homefree_path, RTLD_NOW);
    if (strcmp(order, "after") == 0)
        open_library();
    new = (void *(*)(size_t))symbol_of(load("libstdc++.so.6", RTLD_NOW), "_Znwm");
}

START_TEST(the_processs_blocks)
{
    set_up();
    for (size_t i = 0; i < COUNT; i++) {
        char *block = i % 2 == 0 ? malloc(size_of(i)) : new (size_of(i));
        ck_assert_ptr_nonnull(block);
        memset(block, 1, size_of(i));
        if (i % 3 == 0)
            block = bound->resize(block, 2 * size_of(i));
        ck_assert_int_eq(block[size_of(i) - 1], 1);
        bound->releases[i % 4](block);
        bound->releases[i % 4](strdup("libc allocates where the process does"));
    }
}
END_TEST

START_TEST(its_allocators_blocks)
{
    set_up();
    for (size_t i = 0; i < COUNT; i++) {
        char *block = memset(bound->acquire(size_of(i)), 1, size_of(i));
        if (i % 3 == 0)
            block = bound->resize(block, 2 * size_of(i));
        ck_assert_int_eq(block[size_of(i) - 1], 1);
        if (i % 5 == 0)
            free(block);
        else
            bound->releases[i % 4](block);
    }
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&order, &homefree_path, &bound_path, &allocator);
    return RUN_TESTS("bound", the_processs_blocks, its_allocators_blocks);
}
