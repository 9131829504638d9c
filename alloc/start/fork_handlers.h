/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The heap's handlers for fork(2). Owns nothing.
 */
#ifndef HOMEFREE_ALLOC_START_FORK_HANDLERS_H
#define HOMEFREE_ALLOC_START_FORK_HANDLERS_H

#include <stdbool.h>

/* Registers the handlers; in a copy that is not the heap, those alone that reinitialise locks
 * (base/fork_lock.h). Called once, before any other handler of libhomefree's is registered. Returns
 * pthread_atfork()'s result. */
int hf_fork_handlers_register(bool heap);

#endif
