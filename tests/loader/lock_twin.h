/*
 * See lock_twin.c.
 */
#ifndef HOMEFREE_TESTS_LOADER_LOCK_TWIN_H
#define HOMEFREE_TESTS_LOADER_LOCK_TWIN_H

__attribute__((visibility("default"))) int twin_lock_run(void (*function)(void *context),
                                                         void *context);

#endif
