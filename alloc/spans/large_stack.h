/*
 * Stacks of large blocks' records, which any thread pushes to and pops from without a lock. A head
 * is a record's place in the region and a number that changes with every pop, so that a record that
 * came back meanwhile is not taken for the one that was seen. Records stay records, so what is read
 * of one that another thread has popped is only useless.
 */
#ifndef HOMEFREE_LARGE_STACK_H
#define HOMEFREE_LARGE_STACK_H

#include "alloc/spans/large.h"

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
