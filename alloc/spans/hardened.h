/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HOMEFREE_CONF=checks:hardened and checks:full: small blocks lie at random places, have guards
 * (guards.h) that the free of the block behind looks at too, are cleared when they are freed, wait
 * before they are given out again, and must be clear then; spans end in a page that nobody may
 * touch, and lie scattered over the region; large blocks end in front of such a page, and nobody
 * may touch them while they wait.
 *
 * A freed small block waits in its local heap's stack, from which a random one leaves for each that
 * comes; the fast paths are closed (local.h), so nothing else is in the stacks. A block that
 * another thread freed waits until the owner looks for it. A block's state is BUSY while its bytes
 * are written by either, so that who looks at a neighbour's guard can tell.
 *
 * Owns the large blocks that wait, under a lock of its own. All functions: inside the gate, unless
 * stated otherwise.
 */
#ifndef HOMEFREE_ALLOC_SPANS_HARDENED_H
#define HOMEFREE_ALLOC_SPANS_HARDENED_H

#include "alloc/spans/guard_pages.h"
#include "alloc/spans/span.h"

/* ---- small blocks ---- */

/* A block with a guard, of a class that is not that of no bytes. NULL if there is no memory. */
void *hf_hardened_take(struct hf_local *local, unsigned class, size_t asked);

/* As hf_span_give(), with the guard checked by the caller; ends the process if a neighbour's was
 * overwritten. */
int hf_hardened_give(struct hf_local *local, void *ptr, struct hf_entry *entry, const void *caller);

/* The fast paths: no lock, no gate. NULL or false: for the slow path, which also knows what is
 * wrong. */
void *hf_hardened_malloc(size_t size);
bool hf_hardened_free(void *ptr, struct hf_entry *entry, const void *caller);
void *hf_hardened_realloc(void *ptr, size_t size, const void *caller);

/* A live block of the caller's gets another guard, where it is. */
void hf_hardened_resize(void *ptr, struct hf_entry *entry, size_t asked, size_t size);

/* ---- large blocks ---- */

/* alignment: 0 for malloc's. NULL if there is no memory. */
void *hf_hardened_take_large(size_t size, size_t alignment, bool zeroed);
/* Bytes of such a block with malloc's alignment and of what is around it. */
size_t hf_hardened_large_whole(size_t size);

/* The requested size of a live block that starts there; *wrong: as hf_large_check(). Ends the
 * process if what lies around it was overwritten. No gate. */
size_t hf_hardened_check_large(const void *ptr, const void *caller, enum hf_corruption purpose,
                               int *wrong);

/* As hf_large_holds(). */
size_t hf_hardened_holds_large(const void *ptr, const void **block);

/* The first byte of the block for which hf_large_each() tells another; NULL if it waits. */
const void *hf_hardened_first(const void *base);

/* As hf_large_give() and hf_large_defer(). */
int hf_hardened_give_large(void *ptr);
int hf_hardened_defer_large(const void *ptr, const void *caller);

/* Copies what is in a live large block, which is given back next, to one of `capacity` bytes; of
 * much, the pages go along, if both lie in them alike, or are given back on the way: so there is
 * never memory for both. */
void hf_hardened_move(char *to, size_t capacity, char *from, size_t size);

/* Ends the waiting of all. */
void hf_hardened_empty(void);

#endif
