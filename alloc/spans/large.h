/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large blocks: more than HF_LARGEST bytes, or alignments that no class has. Each is pages of its
 * own, and has a record (large_record.h). The entry of the unit in which a block starts points to
 * its record, also after the block was freed, until another one starts there.
 *
 * All functions: any thread inside the gate, unless stated otherwise. No lock is held while a block
 * comes from the cache (large_cache.h) or goes there; otherwise pages' locks, and for new records
 * the spans' lock.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LARGE_H
#define HOMEFREE_ALLOC_SPANS_LARGE_H

#include "alloc/spans/entry.h"

/* A block; alignment: a power of two, or 0; zeroed: all of it. NULL if there is no memory. */
void *hf_large_take(size_t size, size_t alignment, bool zeroed);

/* Frees what is a live block's first byte. Returns -1, or what is wrong (enum hf_corruption_kind);
 * then nothing has changed. ptr: not in a span. */
int hf_large_give(void *ptr);

/* The same, as far as it goes outside the gate: the block stays as it is, but nobody can free or
 * resize it, until hf_large_resume() makes it live again and returns it; NULL if there are no more.
 * No lock. */
int hf_large_defer(const void *ptr, const void *caller);
void *hf_large_resume(const void **caller);
bool hf_large_is_deferred(void);

/* The size of the live block that starts there; *wrong as hf_large_give() returns it, 0 then. ptr:
 * not in a span. No lock, no gate. */
size_t hf_large_check(const void *ptr, int *wrong);

/* What the program asked for when it got the live block that starts there. No lock, no gate. */
size_t hf_large_asked(const void *ptr);

/* The heap of one's own that has the live block which holds an address. No lock, no gate. */
struct hf_heap *hf_large_heap(const void *ptr);
void hf_large_set_heap(const void *ptr, struct hf_heap *heap);

/* Says whether the live block that holds an address is a sample; false if it was so already, or if
 * there is none. No lock, no gate. */
bool hf_large_set_sampled(const void *ptr, bool sampled);

/* The limit that the live block which holds an address counts for (limited.h), or -1, and as how
 * many bytes. No lock, no gate. */
int hf_large_limit(const void *ptr, uint64_t *bytes);
void hf_large_set_limit(const void *ptr, int limit);

/* Makes a live block larger or smaller, where it is or by moving its pages. NULL if the caller must
 * copy it; nothing has changed then. */
void *hf_large_resize(void *ptr, size_t size);

/* The size and first byte of the live block that holds an address of the region; 0 and NULL if
 * there is none. No lock, no gate. */
size_t hf_large_holds(const void *ptr, const void **block);

/* Calls visit for each live block, until it returns false. What other threads take and free
 * meanwhile may be seen or not. No lock, no gate. */
bool hf_large_each(bool (*visit)(void *context, const void *ptr, size_t size), void *context);

/* Gives to pages what is kept for reuse: at the end of each window (pages.h), what was not needed
 * lately; or all. */
void hf_large_trim(void);
void hf_large_empty(void);

struct hf_large_count {
    uint64_t live;  /* bytes */
    uint64_t kept;  /* bytes for reuse */
    uint64_t moved; /* bytes of both that are not pages' */
    uint64_t blocks;
};
/* No lock, no gate. */
struct hf_large_count hf_large_count(void);

#endif
