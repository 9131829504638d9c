/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which live blocks of the heap the process can still reach: those that a word in its writable
 * memory outside the heap points to or into, or a word in such a block. Conservative: a number that
 * looks like a pointer is one, also if its upper 16 bits are a tag, and so are the digits of a
 * Python int.
 *
 * For one thread at a time. Other threads may run; what only their registers hold is not seen.
 * Reads memory without faulting, allocates nothing from the process. Owns its memory between begin
 * and end.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_REACHABLE_H
#define HOMEFREE_ALLOC_DIAGNOSE_REACHABLE_H

#include "alloc/diagnose/footers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes stock of the process's mappings. False if the system refuses, or if another thread has
 * begun and not ended. */
bool hf_reachable_begin(void);

/* Leaves memory out that lists blocks without owning them. Between begin and mark. */
void hf_reachable_skip(const void *start, size_t size);

void hf_reachable_end(void);

/* Visits the footers of all blocks whose footer is whole, live ones and freed ones that were not
 * used again. */
typedef void hf_block_visitor(const void *block, size_t capacity, struct hf_footer footer,
                              bool is_live);
void hf_reachable_each_block(hf_block_visitor *visit);

/* Marks what can be reached. stack: from where on the calling thread's stack counts. False if that
 * takes too long. */
bool hf_reachable_mark(const void *stack);

/* Whether the block that begins there was marked. */
bool hf_reachable_is(const void *block);

#endif
