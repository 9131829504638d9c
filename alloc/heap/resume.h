/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of homefree's own that fork(2) leaves behind: the child's first slow path that ends a
 * window starts them again, because a fork handler must not, and a child that never comes there
 * needs none.
 *
 * Owns two functions, sealed, which loader/ hands in once there is such a thread, and whether it is
 * missing. Any thread.
 */
#ifndef HOMEFREE_ALLOC_HEAP_RESUME_H
#define HOMEFREE_ALLOC_HEAP_RESUME_H

#include <stdbool.h>

/* left: called in a child with the gate closed, and must do no more than store; start: by a thread
 * that is inside the gate and holds no lock of the heap, and may allocate. */
void hf_resume_offer(void (*left)(void), void (*start)(void));

/* In a forked child. */
void hf_resume_in_child(void);

extern bool hf_resume_due; /* atomic */
static inline bool hf_resume_is_due(void)
{
    return __builtin_expect(__atomic_load_n(&hf_resume_due, __ATOMIC_RELAXED), 0);
}
/* Starts what is missing, in one thread. Preserves errno. */
void hf_resume(void);

#endif
