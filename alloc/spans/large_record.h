/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The records of large blocks, which are never anything else, and stacks of them.
 *
 * A record's word is the block's address with its state: who frees a block turns LIVE into KEPT by
 * one compare-and-exchange, and so fails if the block is not live, whatever the record has been
 * used for since it was read.
 *
 * Any thread pushes to a stack and pops from it, without a lock. A stack's head is a record's place
 * in the region and a number that changes with every push and pop, so that a record that came back
 * meanwhile is not taken for the one that was seen. What is read of a record that another thread
 * has popped is only useless.
 */
#ifndef HOMEFREE_ALLOC_SPANS_LARGE_RECORD_H
#define HOMEFREE_ALLOC_SPANS_LARGE_RECORD_H

#include "alloc/heap/internal.h"

enum hf_large_state {
    HF_LARGE_GONE, /* its pages went back; the address is where it was */
    HF_LARGE_KEPT, /* freed, and in the cache, or on its way */
    HF_LARGE_BUSY, /* live, while it is resized; or its free is put off */
    HF_LARGE_LIVE
};

struct hf_large {
    uintptr_t word;        /* atomic: address + state */
    size_t size;           /* atomic: bytes that can be used; changes only while BUSY or not live */
    size_t capacity;       /* bytes that it has; those behind its size are for its growth */
    size_t asked;          /* of a live block: what the program asked for */
    struct hf_large *next; /* atomic: in a stack */
    struct hf_heap *heap;  /* of a live block: heaps.h */
    uint32_t depth;        /* atomic: how many are in the stack, from this one on */
    bool moved;            /* its pages come straight from the region */
    bool sampled;          /* atomic: of a live block: samples.h */
    uint8_t limit;         /* atomic: of a live block: 1 + its limit, or 0: limited.h */
    const void *caller;    /* who freed it, while that is put off */
};
_Static_assert(sizeof(struct hf_large) == 64, "a cache line");

struct hf_large_stack {
    uint64_t head; /* atomic */
    uint32_t low;  /* atomic: the fewest that there were since the cache looked (large_cache.c) */
} __attribute__((aligned(64)));

/* The lower bits: 1 more than the record's offset in the region, in records; 0 for none. */
enum { HF_LARGE_PLACE_BITS = 40 };
_Static_assert(HF_REGION_MOST / sizeof(struct hf_large) < UINT64_C(1) << HF_LARGE_PLACE_BITS,
               "each record has a place");

static inline struct hf_large *hf_large_stack_top(uint64_t head)
{
    const uint64_t place = head & ((UINT64_C(1) << HF_LARGE_PLACE_BITS) - 1);
    return place != 0 ? (struct hf_large *)hf_region.base + (place - 1) : NULL;
}

static inline uint64_t hf_large_stack_head(uint64_t before, const struct hf_large *top)
{
    const uint64_t count = before >> HF_LARGE_PLACE_BITS;
    const uint64_t place =
        top != NULL ? (uint64_t)(top - (const struct hf_large *)hf_region.base) + 1 : 0;
    return (count + 1) << HF_LARGE_PLACE_BITS | place;
}

static inline uint32_t hf_large_stack_depth(const struct hf_large *top)
{
    return top != NULL ? __atomic_load_n(&top->depth, __ATOMIC_RELAXED) : 0;
}

static inline void hf_large_stack_push(struct hf_large_stack *stack, struct hf_large *record)
{
    uint64_t head = __atomic_load_n(&stack->head, __ATOMIC_ACQUIRE);
    do {
        struct hf_large *top = hf_large_stack_top(head);
        __atomic_store_n(&record->next, top, __ATOMIC_RELAXED);
        __atomic_store_n(&record->depth, hf_large_stack_depth(top) + 1, __ATOMIC_RELAXED);
    } while (!__atomic_compare_exchange_n(&stack->head, &head, hf_large_stack_head(head, record),
                                          true, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
}

/* NULL if the stack is empty. */
static inline struct hf_large *hf_large_stack_pop(struct hf_large_stack *stack)
{
    uint64_t head = __atomic_load_n(&stack->head, __ATOMIC_ACQUIRE);
    struct hf_large *top, *next;
    do {
        top = hf_large_stack_top(head);
        if (top == NULL)
            return NULL;
        next = __atomic_load_n(&top->next, __ATOMIC_RELAXED);
    } while (!__atomic_compare_exchange_n(&stack->head, &head, hf_large_stack_head(head, next),
                                          true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
    return top;
}

#endif
