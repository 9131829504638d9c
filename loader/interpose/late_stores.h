/*
 * Slots that a thread may still be about to overwrite.
 *
 * Routing changes a lazy slot that nobody has called yet. A thread that is inside the loader's
 * resolver at that moment, and has looked the function up before routing replaced the definition
 * (symbol_tables.h), stores the original later: a few instructions, but it may be suspended there
 * for any time, and nobody can tell. Such slots are looked at again whenever there is an occasion.
 */
#ifndef HOMEFREE_LATE_STORES_H
#define HOMEFREE_LATE_STORES_H

#include "alloc/base/dynlink.h"

/* Routing has put `stub` into a slot that was not resolved, while the process had other threads. */
void hf_late_expect(const struct link_map *map, void **slot, void *stub, void *original);

/* Whether there is any such slot. Any thread, without a lock. */
bool hf_late_any(void);

/* Puts stubs back where an original was stored since; forgets slots of unloaded objects. Under the
 * loader's lock. Result: how many were put back. */
size_t hf_late_look(void);

/* Registers the fork handler. Called once, by the library's constructor. */
void hf_late_start(void);

#endif
