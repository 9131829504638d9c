/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of this directory share beyond their headers. The rules of span.h hold.
 */
#ifndef HOMEFREE_ALLOC_SPANS_BETWEEN_H
#define HOMEFREE_ALLOC_SPANS_BETWEEN_H

#include "alloc/spans/span.h"

enum {
    HF_GROUP = 64, /* states that one word of free blocks comes from */
    HF_NEVER = 0xffff
};

void hf_span_link(struct hf_span **list, struct hf_span *span);
void hf_span_unlink(struct hf_span **list, struct hf_span *span);

/* A full span is worth a look again once it has so many free blocks. */
static inline uint32_t hf_span_worth(const struct hf_span *span)
{
    enum { PART = 64 };
    return span->blocks / PART != 0 ? span->blocks / PART : 1;
}

/* So many free blocks make it sparse: all others may lie in stacks. */
static inline uint32_t hf_span_sparse(const struct hf_span *span)
{
    return span->blocks - span->blocks / 2U;
}

static inline void hf_span_not_sparse(struct hf_local *local, struct hf_span *span)
{
    local->sparse -= span->sparse;
    span->sparse = false;
}

/* Whether most of the spans are sparse, for the first time since that was so last. */
bool hf_spans_are_sparse(struct hf_local *local);

/* Fills the bin's mask. False if there is no memory. */
bool hf_bin_refill(struct hf_local *local, unsigned class);

/* A BUSY block of another local heap's: tells its owner that it is free. */
void hf_span_give_remote(uint8_t *state, struct hf_entry *entry);

/* The queue of a local heap that waits for a thread: nobody would look into it. */
#define HF_QUEUE_CLOSED ((struct hf_span *)1)
/* Takes in what other threads freed in a span of the caller's. */
void hf_span_collect(struct hf_span *span);
/* As hf_span_reached(), but without a tick. Whether the span was given away. */
bool hf_span_settle(struct hf_local *local, struct hf_span *span);

/* Puts the larger blocks of the stacks, which may be all that is in use of their spans, back. */
void hf_spans_unstack(struct hf_local *local);

/* Puts all that the stacks and groups hold back, and gives every wholly free span away. `closed`:
 * what is freed from now on goes to its span at once, until the class needs a block that is not at
 * hand. */
void hf_spans_empty(struct hf_local *local, bool closed);

/* After that: gives the pages of the thread's spans back on which nothing is live; it looks at
 * `most` of the spans. Returns how many bytes they have. */
size_t hf_spans_give_pages(struct hf_local *local, size_t most);

/* With the spans' lock: a span that some thread has left and that has enough free blocks, of which
 * it looks at a few only, unless there is no memory; or a new one. NULL if there is none. */
struct hf_span *hf_span_adopt(struct hf_local *local, unsigned class, bool desperate);
struct hf_span *hf_span_make(struct hf_local *local, unsigned class);
/* Takes in what was freed in spans that threads have left. With the spans' lock. */
void hf_spans_drain_left(void);
/* Gives a wholly free span away, which is not in a list. With the spans' lock. */
void hf_span_end(struct hf_span *span);

/* Gives all spans of a local heap away, whatever their blocks are. With the spans' lock. */
void hf_spans_drop(struct hf_local *local);

/* In a forked child, for hf_locals_miss_warm(). A thread that the child lacks may have been in
 * the middle of a remote free: queues are forgotten, and the spans of those that go on (`own`, and
 * the list `lent`), and of nobody, looked through. */
void hf_spans_reset_in_child(struct hf_local *own, struct hf_local *lent);

#endif
