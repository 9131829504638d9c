/*
 * The heap's handlers for fork(2). See jemalloc/fork_gate.h for how they keep it consistent.
 */
#ifndef HOMEFREE_FORK_GATE_H
#define HOMEFREE_FORK_GATE_H

#include "alloc/jemalloc/fork_gate.h"

/* Registers the handlers; called once, by the copy that is the heap. Result: pthread_atfork's. */
int hf_gate_register(void);

/* For who can wait longer than hf_gate_wait(): until no fork is under way, for 2 s at most, because
 * the fork may be waiting for this very thread. The thread that forks does not wait. */
void hf_gate_wait_long(void);

#endif
