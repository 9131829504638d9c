/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spans: units with blocks of one class, side by side. A span's record lies in front of its states,
 * in memory that is only ever used for spans of that class: what another thread reads of a span
 * that was given away meanwhile is still a record.
 *
 * A span belongs to one local heap, whose thread alone changes it, without a lock, but for `queued`
 * and `next_queued`. Which spans there are, and whose, changes under the spans' lock.
 *
 * All functions: inside the gate, unless stated otherwise. `local` is what hf_local_use() returned.
 */
#ifndef HOMEFREE_ALLOC_SPANS_SPAN_H
#define HOMEFREE_ALLOC_SPANS_SPAN_H

#include "alloc/spans/local.h"

#include <pthread.h>
#include <stddef.h>

struct hf_span {
    struct hf_span *next, *previous;             /* in its bin's list, its class's abandoned spans,
                                                    or the records that wait for use */
    struct hf_span *next_owned, *previous_owned; /* spans' lock */
    struct hf_span *next_queued;                 /* in the queue of an owner, present or former */
    struct hf_local *owner;                      /* atomic; NULL: the span is nobody's */
    uint32_t unit;                               /* the first one: its address >> HF_LG_UNIT, from
                                                    the region's base */
    uint16_t free,
        when; /* free blocks in the states; at which number hf_span_reached() is called */
    uint16_t blocks;
    uint8_t class, before; /* before: indices in front of the first block */
    uint8_t listed;
    uint8_t queued; /* atomic */
    uint8_t sparse; /* listed, and mostly free */
    uint8_t none;   /* HF_NONE, as what stands in front of the states */
};
_Static_assert(sizeof(struct hf_span) == 64, "states begin at a cache line");
_Static_assert(offsetof(struct hf_span, none) == sizeof(struct hf_span) - 1,
               "right in front of them");

static inline uint8_t *hf_span_states(struct hf_span *span)
{
    return (uint8_t *)(span + 1);
}

static inline struct hf_span *hf_entry_span(const struct hf_entry *entry)
{
    return (struct hf_span *)entry->state - 1;
}

static inline char *hf_span_start(const struct hf_span *span)
{
    return (char *)hf_region.base + ((size_t)span->unit << HF_LG_UNIT);
}

static inline size_t hf_span_bytes(const struct hf_span *span)
{
    return hf_classes[span->class].units * HF_UNIT;
}

/* The address of a span's block with an index. */
static inline char *hf_span_block(const struct hf_span *span, uint32_t index)
{
    char *start = hf_span_start(span);
    const struct hf_entry *entry = hf_entry_of(start);
    /* Index 0 is not above the span's start. */
    return start - ((uint32_t)(uintptr_t)start - entry->first) +
           (size_t)index * hf_classes[span->class].size;
}

/* Adds a span, whose `queued` the caller has set, to the queue of its owner. An entry of a queue is
 * a hint: the span may change hands at any time, and whoever finds another one's span in his queue
 * passes it on by the same call. Any thread, outside the gate, too. */
void hf_span_queue(struct hf_span *span);

struct hf_span_queues {
    uint8_t now; /* what `queued` holds while a span is in a queue; another number in a forked
                    child, where all queues are empty: so no record need be changed there */
    bool used;   /* atomic: by any thread, ever. Such a thread need not have a local heap */
} __attribute__((aligned(64))); /* nobody writes to its line */
extern struct hf_span_queues hf_span_queues __attribute__((visibility("hidden")));

static inline bool hf_span_is_queued(const struct hf_span *span)
{
    return __atomic_load_n(&span->queued, __ATOMIC_SEQ_CST) == hf_span_queues.now;
}

/* False: it was queued already. */
static inline bool hf_span_set_queued(struct hf_span *span)
{
    return __atomic_exchange_n(&span->queued, hf_span_queues.now, __ATOMIC_SEQ_CST) !=
           hf_span_queues.now;
}

/* Tells the owner of a span that it has a REMOTE block. Any thread, outside the gate, too. */
static inline void hf_span_hint(struct hf_span *span)
{
    if (hf_span_is_queued(span))
        return;
    if (HF_UNLIKELY(!__atomic_load_n(&hf_span_queues.used, __ATOMIC_RELAXED)))
        __atomic_store_n(&hf_span_queues.used, true, __ATOMIC_RELAXED);
    if (hf_span_set_queued(span))
        hf_span_queue(span);
}

/* Starts what this directory has of spans. False if there is no memory. */
bool hf_spans_start(void);

/* ---- blocks ---- */

/* A block, taken from the stack, the group, or a span; NULL if there is no memory. */
void *hf_span_take(struct hf_local *local, unsigned class);

/* Takes back the block that starts at ptr, which lies in a span. Returns -1, or what is wrong with
 * it (enum hf_corruption_kind); then nothing has changed. `local` may be NULL or another thread's
 * owner: then it needs no gate, takes no lock and never waits. */
int hf_span_give(struct hf_local *local, void *ptr, struct hf_entry *entry);

/* What is wrong with a pointer into a span as a live block's first byte, or -1. Without a lock,
 * from any thread, also outside the gate. */
int hf_span_check(const void *ptr, const struct hf_entry *entry);

/* Whether a block of a span began at an address that is in no span now: not if that is long ago. */
static inline bool hf_span_was(const void *ptr, const struct hf_entry *entry)
{
    uint8_t *state;
    return __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE) == NULL && entry->reciprocal != 0 &&
           hf_entry_state(entry, ptr, &state);
}

/* The block of a span that holds an address, and its state; NULL if none does. Without a lock. */
char *hf_span_holds(const void *ptr, const struct hf_entry *entry, enum hf_state *state);

/* span->free has reached span->when, in the calling thread's local heap: lists the span or, if it
 * is wholly free and its class has another, gives it away. Needs no gate; a tick. */
void hf_span_reached(struct hf_local *local, struct hf_span *span) __attribute__((cold));

/* ---- between local heaps ---- */

/* The spans' lock: order 7 of ARCHITECTURE.md; pages' locks come below it. */
void hf_spans_lock(void);
void hf_spans_unlock(void);

/* With the lock. Puts back what the local heap's stacks and groups hold, and leaves its spans to
 * whoever needs them. `stale`: its thread is missing in a forked child, so the states alone tell.
 */
void hf_spans_leave(struct hf_local *local, bool stale);

/* Takes in what other threads have freed. */
void hf_spans_drain(struct hf_local *local);

/* Calls visit for each span; the lock is held. Stops when it returns false. What other threads
 * allocate and free meanwhile may be seen or not. */
void hf_spans_each(bool (*visit)(void *context, struct hf_span *span), void *context);

#endif
