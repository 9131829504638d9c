/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recent calls: what a thread remembers of the places where it allocated and freed, so that the
 * frequent case needs one lookup for the site, the footer and the counter. Each thread has a table
 * of its own, which belongs to its table of counts (counts.h). A call is remembered only after
 * debug_heap.c has handled one like it, without a fault: what is in a table needs no other check.
 *
 * A thread that has no table finds nothing in one that stays empty.
 *
 * Any thread, at any stage. Taking a table and forgetting need the records' lock; the rest takes
 * none.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_RECENT_H
#define HOMEFREE_ALLOC_DIAGNOSE_RECENT_H

#include "alloc/diagnose/event.h"
#include "alloc/diagnose/footers.h"

#include <stdbool.h>

/* One call. Of an allocation: from a place. Of a free: from a place, of the blocks of a site. */
struct hf_recent {
    uint64_t key;  /* hf_recent_key(); 0: free. Other threads may clear it */
    uint64_t base; /* hf_footer_base() of an allocated block; hf_footer_identity() of a freed one */
    uint64_t freed; /* hf_footer_freed() of a freed one; uses left of an allocation, 0: no limit */
    struct hf_report_pair *pair;
};

/* A call lies in one of two places. The fast paths look at the first one only; what is found in the
 * second now and then moves there. The second places make up the second half of a table. */
enum { HF_RECENT_BITS = 9, HF_RECENT_SECOND = 1 << HF_RECENT_BITS };
enum { HF_RECENT_ROOM = 2 * HF_RECENT_SECOND };

/* The calling thread's table. */
extern __thread struct hf_recent *hf_recent_own
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* realloc(3) does both. */
enum hf_recent_kind { HF_RECENT_ALLOCATION = 0, HF_RECENT_FREE = 0x80 };
_Static_assert((int)HF_FUNCTION_COUNT <= (int)HF_RECENT_FREE,
               "a key has seven bits for the function");

static inline uint64_t hf_recent_key(struct hf_call_site call, enum hf_recent_kind kind)
{
    return (uint64_t)(uintptr_t)call.caller << 8 | (uint64_t)call.function | (uint64_t)kind;
}

/* The first place of a call. identity: of the block that is freed, or 0. */
static inline struct hf_recent *hf_recent_first(struct hf_recent *table, const void *caller,
                                                uint64_t identity)
{
    const uint32_t hash = (uint32_t)((uintptr_t)caller + identity) * 0x9e3779b1U;
    return &table[hash >> (32 - HF_RECENT_BITS)];
}

static inline bool hf_recent_is(const struct hf_recent *recent, uint64_t key)
{
    return __builtin_expect(__atomic_load_n(&recent->key, __ATOMIC_RELAXED) == key, 1);
}

/* Whether the calling thread remembers an allocation. place: 0, or HF_RECENT_SECOND. */
static inline bool hf_recent_allocation(struct hf_call_site call, size_t place,
                                        struct hf_recent **out)
{
    *out = hf_recent_first(hf_recent_own, call.caller, 0) + place;
    return hf_recent_is(*out, hf_recent_key(call, HF_RECENT_ALLOCATION));
}

/* Whether it remembers freeing a block like this one, whose word is intact then. */
static inline bool hf_recent_free(const void *ptr, uint64_t word, struct hf_call_site call,
                                  size_t place, struct hf_recent **out)
{
    const uint64_t identity = hf_footer_identity(ptr, word);
    *out = hf_recent_first(hf_recent_own, call.caller, identity) + place;
    return hf_recent_is(*out, hf_recent_key(call, HF_RECENT_FREE)) &&
           __builtin_expect((*out)->base == identity, 1) && hf_footer_constant(word);
}

/* Remembers a call of the calling thread, and the pair that counts it. */
void hf_recent_allocated(struct hf_call_site call, uint32_t site, enum hf_block_kind kind,
                         struct hf_report_pair *pair);
/* The same in the second place, for a number of uses. */
void hf_recent_allocated_for(struct hf_call_site call, uint32_t site, enum hf_block_kind kind,
                             struct hf_report_pair *pair, uint64_t uses);
void hf_recent_freed(struct hf_call_site call, uint32_t site, enum hf_block_kind kind,
                     uint32_t freed_site, struct hf_report_pair *pair);

/* Forgets an allocation that the calling thread remembers. */
void hf_recent_take_back(struct hf_call_site call);

/* Forgets all of them. */
void hf_recent_forget_own(void);

/* Swaps a call in its second place with that in the first one, sometimes. */
void hf_recent_swap(struct hf_recent *second);
static inline void hf_recent_prefer(struct hf_recent *second, const void *ptr)
{
    if ((uint32_t)((uintptr_t)ptr >> 3) * 0x9e3779b1U >> 29 == 0)
        hf_recent_swap(second);
}

/* ---- the tables ---- */

/* Gives the calling thread the table with a number. Under the lock. */
void hf_recent_begin(uint32_t number);
/* Takes the calling thread's table away. */
void hf_recent_end(void);

/* Has all threads forget an allocation, or everything. Under the lock. */
void hf_recent_forget(struct hf_call_site call);
void hf_recent_forget_all(void);

#endif
