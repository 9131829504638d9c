/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The records of local heaps, and those that no thread has. Owned by locals.c; the spans' lock
 * guards them.
 *
 * The local heap of a thread that ended stays warm: with its stacks and spans, for the next thread,
 * until some thread lacks a span, or memory is given back. In a forked child, those of the threads
 * that it lacks are missing: what they were doing is unknown, so the states alone count.
 *
 * All functions: inside the gate, with the spans' lock, unless stated otherwise.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LOCALS_H
#define HOMEFREE_ALLOC_SPANS_LOCALS_H

#include "alloc/spans/local.h"

/* One that is in no list; NULL if there is no memory. */
struct hf_local *hf_locals_take(void);
/* Keeps one that is in no list for another thread. What others freed in it is collected. */
void hf_locals_keep(struct hf_local *local);
/* Whether hf_locals_take() would make one. */
bool hf_locals_none_waits(void);
/* How many there are; how many spans those have that are warm. */
uint64_t hf_locals_count(void);
size_t hf_locals_warm_spans(void);

/* For whoever lacks a span: the spans of one that no thread has go to all. False if none has any.
 */
bool hf_locals_take_over(void);

/* A list of them. */
void hf_locals_link(struct hf_local **list, struct hf_local *local);
void hf_locals_unlink(struct hf_local **list, struct hf_local *local);

/* Visits every local heap. Takes the spans' lock. */
typedef void hf_locals_visitor(struct hf_local *local, unsigned argument);
void hf_locals_each(hf_locals_visitor *visit, unsigned argument);
/* The same in a list, and in all that no thread has. With the spans' lock. */
void hf_locals_each_in(struct hf_local *list, hf_locals_visitor *visit, unsigned argument);
void hf_locals_each_kept(hf_locals_visitor *visit, unsigned argument);

/* In a forked child, without the lock: `local`, which is in no list, is missing; so are all that
 * are warm, because others may have been freeing into their spans; and what goes on is looked
 * through: `own`, which may be NULL, and those that hf_local_make() made. */
void hf_locals_miss(struct hf_local *local);
void hf_locals_miss_warm(struct hf_local *own);

#endif
