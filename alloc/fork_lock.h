/*
 * Keeps a lock of libhomefree's whole over fork(2): held while the process forks, so that what it
 * guards is consistent in the child, and new there.
 *
 * Order: fork takes first what was registered last. A lock under which others are taken needs a
 * higher priority (a later constructor) than they have; those of the heap are registered with
 * pthread_atfork(3) by instance.c, which comes first of all and so is taken last.
 */
#ifndef HOMEFREE_FORK_LOCK_H
#define HOMEFREE_FORK_LOCK_H

#include <pthread.h>

#define HF_LOCK_OVER_FORK(mutex, priority)                                        \
    static void mutex##_before_fork(void)                                         \
    {                                                                             \
        pthread_mutex_lock(&mutex);                                               \
    }                                                                             \
    static void mutex##_in_parent(void)                                           \
    {                                                                             \
        pthread_mutex_unlock(&mutex);                                             \
    }                                                                             \
    static void mutex##_in_child(void)                                            \
    {                                                                             \
        pthread_mutex_init(&mutex, NULL);                                         \
    }                                                                             \
    __attribute__((constructor(priority))) static void mutex##_register(void)     \
    {                                                                             \
        pthread_atfork(mutex##_before_fork, mutex##_in_parent, mutex##_in_child); \
    }

#endif
