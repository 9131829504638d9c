/*
 * fixture.h - what the suites of C modules share: the module under test, and libc itself, asked in
 * the same way.
 */
#ifndef HOMEFREE_TESTS_SHIM_FIXTURE_H
#define HOMEFREE_TESTS_SHIM_FIXTURE_H

#include "module_c.h"

#include <check.h>
#include <homefree/homefree.h>

extern struct functions module; /* as the module's linker bound them */
extern struct idioms idioms;
extern struct functions libc; /* through dlsym(); NULL where this libc has no such function */

/* A block is the heap's if the module made it, and is not if libc did. */
void assert_home(const struct functions *maker, const void *block);

/* Loads the module that the command line names, runs the suite; main()'s result. */
int run_suite(int count, char **arguments, Suite *suite);

/* One test case with these tests. */
Suite *suite_of(const char *name, const TTest *const *tests, size_t count);
#define SUITE(name, ...)                                \
    suite_of(name, (const TTest *const[]){__VA_ARGS__}, \
             sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(const TTest *))

#endif
