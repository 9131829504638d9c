/*
 * fixture.h - what the suites of C modules share: the module under test, and libc itself, asked in
 * the same way.
 */
#ifndef HOMEFREE_TESTS_SHIM_FIXTURE_H
#define HOMEFREE_TESTS_SHIM_FIXTURE_H

#include "module_c.h"
#include "suite.h"

#include <homefree/homefree.h>

extern struct functions module; /* as the module's linker bound them */
extern struct idioms idioms;
extern struct functions libc; /* through dlsym(); NULL if this libc has no such function */

/* Asserts that the block is the heap's if the module made it, and not if libc did. */
void assert_home(const struct functions *maker, const void *block);

/* Both, so that each is asked for the same. */
enum { MAKERS = 2 };
extern const struct functions *const makers[MAKERS];

/* Loads the module that is the program's only argument. */
void load_module(int count, char **arguments);

#endif
