/*
 * The process as seen from outside homefree: loaded libraries (library.h), the objects and pages
 * that hold an address, and an end for tests that hang.
 */
#ifndef HOMEFREE_TESTS_SUPPORT_PROCESS_H
#define HOMEFREE_TESTS_SUPPORT_PROCESS_H

#include "library.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a module that offers libc's functions as it calls them: loader/modules/user.h. */
struct user;
const struct user *load_user(const char *path, int mode);

/* The permissions of an address in /proc/self/maps ("r--p"); "" where nothing is mapped. Static
 * storage. */
const char *permissions_at(const void *address);

/* Asserts that no loaded object's relocated data (PT_GNU_RELRO) can be written. */
void assert_relro_is_read_only(void);

/* The path of the object that holds an address; "" if none. */
const char *object_of(const void *address);

/* Whether homefree can tell the object that holds an address without a lock: from glibc 2.35 on.
 * What rests on that is missing before (docs/limits.md). */
bool objects_are_found(void);

/* Ends the process as skipped if not. */
void need_found_objects(void);

/* Ends the process with a message if it still runs after that time. */
void guard_against_hanging(unsigned seconds);

#ifdef __cplusplus
}
#endif

#endif
