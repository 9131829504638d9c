/*
 * Reinitialises a mutex of libhomefree in the forked child, where the thread that held it no longer
 * exists.
 *
 * The mutex is not held across fork: atfork handlers of other libraries run then, and may need the
 * mutex (through dlopen()) or wait for a thread that does. So the data that it guards must be
 * consistent in a child at every moment: write it completely, then publish it with a single store.
 * The dynamic linker's own lock, which most callers hold, is reinitialised in the child as well.
 *
 * The heap cannot work this way; see jemalloc/fork_gate.h.
 */
#ifndef HOMEFREE_FORK_LOCK_H
#define HOMEFREE_FORK_LOCK_H

#include <pthread.h>

/* Defines `void start(void)`, which registers the handler; start/start.c calls it. */
#define HF_LOCK_OVER_FORK(mutex, start)               \
    static void mutex##_in_child(void)                \
    {                                                 \
        pthread_mutex_init(&mutex, NULL);             \
    }                                                 \
    void start(void)                                  \
    {                                                 \
        pthread_atfork(NULL, NULL, mutex##_in_child); \
    }

#endif
