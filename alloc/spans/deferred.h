/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work deferred while the process forks (heap/fork_gate.h): freed blocks, and requests to close the
 * fast paths or open them. Large blocks wait in a stack of their records (large.h), all else is
 * deferred.c's; nothing is written into the blocks. All is added without a lock, and processed
 * inside the gate by the thread that opens it or finds it open again.
 */
#ifndef HOMEFREE_ALLOC_SPANS_DEFERRED_H
#define HOMEFREE_ALLOC_SPANS_DEFERRED_H

/* Frees a live block, at once or when the gate opens. */
void hf_defer_free(void *ptr, const void *caller);

#endif
