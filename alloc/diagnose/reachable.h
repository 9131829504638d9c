/*
 * Which live blocks of the heap the process can still reach: those that a word in its writable
 * memory outside the heap points to or into, or a word in such a block. Conservative: a number that
 * looks like a pointer is one.
 *
 * For one thread, when the process exits. Other threads may run; what only their registers hold is
 * not seen. Reads memory without faulting, allocates nothing from the process. Owns its memory
 * between begin and end.
 */
#ifndef HOMEFREE_REACHABLE_H
#define HOMEFREE_REACHABLE_H

#include "alloc/diagnose/trailers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes stock of the process's mappings. False if the system refuses. */
bool hf_reachable_begin(void);
void hf_reachable_end(void);

/* Visits the trailers of all blocks whose trailer is whole, live ones and freed ones that were not
 * used again. */
typedef void hf_block_visitor(const void *block, size_t room, struct hf_trailer trailer,
                              bool is_live);
void hf_reachable_each_block(hf_block_visitor *visit);

/* Marks what can be reached. stack: from where on the calling thread's stack counts. False if that
 * takes too long. */
bool hf_reachable_mark(const void *stack);

/* Whether the block that begins there was marked. */
bool hf_reachable_is(const void *block);

#endif
