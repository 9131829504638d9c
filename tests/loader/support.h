/*
 * support.h - what the loader's suites share: loading test modules, and looking at the process from
 * outside of homefree.
 */
#ifndef HOMEFREE_TESTS_LOADER_SUPPORT_H
#define HOMEFREE_TESTS_LOADER_SUPPORT_H

#include "modules/user.h"

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

enum { SKIPPED = 77 };

/* A file's function by name; ends the test, or the program, with dlerror()'s message. */
void *load(const char *path, int mode);
void *symbol_of(void *handle, const char *name);
const struct user *load_user(const char *path, int mode);

/* What /proc/self/maps says of an address ("r--p"); "" where nothing is mapped. Static storage. */
const char *permissions_at(const void *address);

/* No loaded object's relocated data (PT_GNU_RELRO) can be written. */
void assert_relro_is_read_only(void);

/* The path of the object that holds an address; "" if none. */
const char *object_of(const void *address);

/* Ends the process when it hangs, with a line that says so. */
void guard_against_hanging(unsigned seconds);

/* One test case with these tests, run; main()'s result. */
int run_tests(const char *name, const TTest *const *tests, size_t count);
#define RUN_TESTS(name, ...)                             \
    run_tests(name, (const TTest *const[]){__VA_ARGS__}, \
              sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(const TTest *))

#endif
