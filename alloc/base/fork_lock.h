/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes of libhomefree that are reinitialised in the forked child, where the thread that held one
 * no longer exists. They lie side by side, because a child copies each page that it writes to.
 * start/fork_handlers.c reinitialises them, before anything else of libhomefree runs in the child.
 *
 * The mutex is not held across fork: atfork handlers of other libraries run then, and may need the
 * mutex (through dlopen()) or wait for a thread that does. So the data that it guards must be
 * consistent in a child at every moment: write it completely, then publish it with a single store.
 * The dynamic linker's own lock, which most callers hold, is reinitialised in the child as well.
 * The heap's locks are never held then; see heap/fork_gate.h.
 */
#ifndef HOMEFREE_ALLOC_BASE_FORK_LOCK_H
#define HOMEFREE_ALLOC_BASE_FORK_LOCK_H

#include <pthread.h>

enum { HF_FORK_LOCK_SIZE = 64 };
_Static_assert(sizeof(pthread_mutex_t) <= HF_FORK_LOCK_SIZE, "a place for each");

/* In the definition of such a mutex, before its name. */
#define HF_FORK_LOCK __attribute__((section("hf_fork_locks"), aligned(HF_FORK_LOCK_SIZE)))

#endif
