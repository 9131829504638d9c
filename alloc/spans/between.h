/*
 * What the files of this folder share beyond their headers. The rules of span.h hold.
 */
#ifndef HOMEFREE_SPANS_BETWEEN_H
#define HOMEFREE_SPANS_BETWEEN_H

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

/* Fills the bin's mask. False if there is no memory. */
bool hf_bin_refill(struct hf_local *local, unsigned class);

/* A BUSY block of another local heap's: tells its owner that it is free. */
void hf_span_give_remote(uint8_t *state, struct hf_entry *entry);

/* The queue of a local heap that waits for a thread: nobody would look into it. */
#define HF_QUEUE_CLOSED ((struct hf_span *)1)
/* Takes in what other threads freed in a span of the caller's. */
void hf_span_collect(struct hf_span *span);
/* A span for a local heap: one that a thread has left, or a new one. Takes the spans' lock. */
struct hf_span *hf_span_get(struct hf_local *local, unsigned class);
/* Gives a wholly free span away, which is not in a list. With the spans' lock. */
void hf_span_end(struct hf_span *span);

uint64_t hf_locals_count(void);

/* Gives all spans of a local heap away, whatever their blocks are. With the spans' lock. */
void hf_spans_drop(struct hf_local *local);

/* In a forked child, for hf_locals_reset_in_child(). A thread that the child lacks may have been in
 * the middle of a remote free: queues are forgotten, and the spans of those that go on (`own`, and
 * the list `lent`), and of nobody, looked through. */
void hf_spans_reset_in_child(struct hf_local *own, struct hf_local *lent);

#endif
