/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks of our own for signal handlers: the program's alternate stack may have room for little
 * more than a signal frame.
 *
 * Owns two stacks. One thread at a time uses them, the second one for a signal that interrupts its
 * work on the first. Async-signal-safe.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_ELSEWHERE_H
#define HOMEFREE_ALLOC_DIAGNOSE_ELSEWHERE_H

#include <stdbool.h>

/* Runs work(argument) on a stack of our own, after the thread that uses it is done. Call it with
 * all signals blocked: their handlers would run on the alternate stack from its top, over the
 * caller's frames. False if that thread takes too long, or the system refuses; then nothing was
 * run. */
bool hf_elsewhere(void (*work)(void *argument), void *argument);

/* For the child of fork(2). */
void hf_elsewhere_in_child(void);

#endif
