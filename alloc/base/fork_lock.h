/*
 * A lock of libhomefree's is new in a forked child: the thread that held it may be gone.
 *
 * It is not held while the process forks. Handlers of others run then, and may come back to it
 * (by dlopen) or wait for a thread that does. So what such a lock guards must be consistent in a
 * child at every moment: it is published by one store, when all else is written. The dynamic
 * linker's own lock, under which most of this runs, is as new in a child.
 *
 * The heap itself cannot work so; see jemalloc/fork_gate.h.
 */
#ifndef HOMEFREE_FORK_LOCK_H
#define HOMEFREE_FORK_LOCK_H

#include <pthread.h>

/* Defines `void start(void)`, which registers the mutex: part of libhomefree's start. */
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
