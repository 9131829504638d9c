/*
 * See destructor.c.
 */
#ifndef HOMEFREE_TESTS_LOADER_MODULES_DESTRUCTOR_H
#define HOMEFREE_TESTS_LOADER_MODULES_DESTRUCTOR_H

__attribute__((visibility("default"))) void keep_until_exit(void *block,
                                                            void (*tell)(const char *stage));
typedef void keep_until_exit_function(void *block, void (*tell)(const char *stage));

#endif
