/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leaks across objects (boundary-leak), looked for when a process exits. A live block is one if
 *
 * - nothing in the process points to it or into it any more (reachable.h), and
 * - another block that was allocated at the same place was freed by another object, and its memory
 *   has not been used again, so that its footer still says so.
 *
 * So the place is known to hand its blocks over, and the finding names who frees such blocks. What
 * a place allocates that only ever frees its own blocks is no leak across objects, and a place none
 * of whose blocks was freed is not known to hand them over.
 *
 * Called once, by the thread that ends the process. Owns nothing afterwards.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_LEAKS_H
#define HOMEFREE_ALLOC_DIAGNOSE_LEAKS_H

#include <stdbool.h>
#include <stdint.h>

/* Records the leaks. stack: from where on the calling thread's stack counts. */
void hf_leaks_find(const void *stack);

/* Records what an interpreter that has ended left behind (interpreter-leak): live blocks that
 * modules allocated while their threads worked in it. is_held: whether somebody outside of the
 * interpreter holds a block on purpose. Others may run; if another thread is looking at all blocks,
 * nothing is found. */
void hf_interpreter_leaks_find(uint32_t interpreter, bool (*is_held)(const void *block));

#endif
