/*
 * Grounds: the memory of spaces, as addresses that nobody touches (heap/front_end.h says what they
 * are for). The addresses lie in the region, in the shadows of pools, so that there are entries for
 * them (entry.h); these have no owner, so that no free of a program finds a block there.
 *
 * Small blocks have size classes of their own, and lie in spans of whole units. A span belongs to
 * its ground, not to a thread: a thread has a stack of blocks for each ground and class that it
 * uses, which it fills and empties under the ground's lock. As any thread may free any block, a
 * block's state goes from LIVE to STACKED by compare-and-exchange, and who succeeds has the block.
 *
 * Large blocks are whole pages, and each has a record. Both, and free ranges, come from the ranges
 * that the space gave.
 *
 * ground_blocks.c has small blocks and what threads keep, ground_pages.c large blocks and free
 * ranges, ground_fast.c the two functions that programs call. A ground's lock is taken inside the
 * gate, and before the spans' lock, with which the books' memory comes.
 */
#ifndef HOMEFREE_SPANS_GROUND_H
#define HOMEFREE_SPANS_GROUND_H

#include "alloc/heap/holes.h"
#include "alloc/spans/ground_stacks.h"

#include <pthread.h>

struct hf_pass;

enum {
    HF_GROUND_FREED = 64,     /* lists, by size */
    HF_GROUND_FREED_MAX = 512 /* blocks */
};

struct hf_ground_span {
    struct hf_ground_span *next, *previous; /* among those of its class that have free blocks, or
                                               the records that wait for use */
    struct hf_ground *ground;
    uintptr_t start;
    uint16_t blocks, free;
    uint8_t class;
};
/* The states follow, and are at a cache line. */
enum { HF_GROUND_SPAN = 64 };
_Static_assert(sizeof(struct hf_ground_span) <= HF_GROUND_SPAN, "states begin at a cache line");

/* A record that is never anything else. `word`, which is atomic, is the block's address and its
 * state: LIVE; REMOTE once it is claimed; STACKED in a list of freed ones; FREE. */
#define HF_GROUND_STATE ((uintptr_t)7)
struct hf_ground_large {
    uintptr_t word;
    size_t size;
    struct hf_ground *ground;
    struct hf_ground_large *next; /* in a list of freed ones, or of records that wait for use */
};

struct hf_ground {
    void *(*grow)(void *space, size_t size);
    size_t (*lacks)(void *space, const void *at, size_t size, size_t most);
    void *space;
    uintptr_t delta; /* what turns an address of the ground into one of the space */
    unsigned number;
    bool is_fast;         /* atomic: it is the ground of a fast space */
    pthread_mutex_t lock; /* of all that follows */
    struct hf_holes free;
    struct hf_ground_span *spans[HF_GROUND_CLASSES], *idle_spans[HF_GROUND_CLASSES];
    uint64_t small; /* bytes in small blocks that are not free */
    struct hf_ground_large *freed[HF_GROUND_FREED], *idle_large;
    size_t freed_count;
    struct hf_ground *next;
};

/* ---- ground_blocks.c ---- */

/* In a forked child, where nobody can use a space that was open before. */
void hf_grounds_reset_in_child(void);

/* ---- ground_pages.c; but for the first, with the ground's lock ---- */

/* What grounds have must not be lost, so a fork is waited for longer than elsewhere. False only in
 * a thread that another thread's fork waits for. */
bool hf_ground_enter(struct hf_pass *pass);

void hf_ground_ranges_start(struct hf_ground *ground);
/* Takes of the free ranges that fit the one that lacks the least; with `grows`, one of the space if
 * none fits. 0 if there is none. */
uintptr_t hf_ground_range_take(struct hf_ground *ground, size_t size, size_t alignment, bool grows);
void hf_ground_range_give(struct hf_ground *ground, uintptr_t at, size_t size);
/* Frees what waits for a request of its own size. */
void hf_ground_freed_empty(struct hf_ground *ground);

/* What lies in the unit of an entry: `ground` is 0 but in spans, where it is 1 more than the
 * ground's number. The class is 0, too, but in spans of which the fast paths may take back blocks.
 */
static inline bool hf_ground_has_span(const struct hf_entry *entry)
{
    return __atomic_load_n(&entry->ground, __ATOMIC_ACQUIRE) != 0;
}
static inline struct hf_ground_large *hf_ground_large_of(const struct hf_entry *entry)
{
    return hf_ground_has_span(entry) ? NULL
                                     : __atomic_load_n(&entry->ground_large, __ATOMIC_ACQUIRE);
}

#endif
