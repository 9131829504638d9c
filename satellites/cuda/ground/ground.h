/*
 * Grounds: the addresses of spaces, which nobody here touches, in which blocks are managed as they
 * are in the heap. A ground gets its addresses from an area, the range of one space, which has an
 * entry for each 32 KiB (a unit).
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
 * ranges. Blocks of at most HF_GROUND_CACHED bytes are taken and given back without a lock; the
 * others, and free ranges, have the ground's. It comes before the leaf lock of the books' memory.
 * All functions may be called by any thread, not in a signal handler.
 */
#ifndef HOMEFREE_GROUND_H
#define HOMEFREE_GROUND_H

#include "alloc/heap/holes.h"
#include "satellites/cuda/ground/ground_threads.h"

#include <pthread.h>

/* ---- areas ---- */

enum { HF_GROUND_LG_UNIT = 15, HF_GROUND_LG_ENTRY = 5 };
#define HF_GROUND_UNIT ((size_t)1 << HF_GROUND_LG_UNIT)

/* A block's state: one byte, far from the block. NONE stands behind a span's last one. */
enum hf_ground_state {
    HF_FREE = 0,
    HF_STACKED = 1, /* in a thread's stack, or in a list of freed large blocks */
    HF_LIVE = 2,
    HF_CLAIMED = 3, /* by whoever frees it */
    HF_NONE = 4
};

/* What lies in a unit; everybody reads it, without a lock. All zero: nothing. */
struct hf_ground_entry {
    union {
        uint8_t *state;                /* of index 0; the span's record ends there */
        struct hf_ground_large *large; /* that starts in the unit */
    };
    uint64_t reciprocal; /* of the class's size */
    uint32_t first;      /* the low half of the address of index 0 */
    uint16_t ground;     /* 0 but in spans, where it is 1 more than the ground's number */
    uint8_t class;       /* 0 but in spans of which the fast paths may take back blocks */
    uint8_t is_border;   /* a range begins here */
} __attribute__((aligned(1 << HF_GROUND_LG_ENTRY)));
_Static_assert(sizeof(struct hf_ground_entry) == 1 << HF_GROUND_LG_ENTRY,
               "two entries a cache line");

struct hf_ground_area {
    uintptr_t base; /* a multiple of HF_GROUND_GRANULE */
    size_t size;
    void *entries; /* as if they were indexed by an address >> HF_GROUND_LG_UNIT */
};
/* False if there is no memory. */
bool hf_ground_area_open(struct hf_ground_area *area, uintptr_t base, size_t size);
/* Undoes that, before there is a ground. */
void hf_ground_area_close(struct hf_ground_area *area);

/* ---- grounds ---- */

/* `grow` gives a ground more addresses of its area: `size` bytes, a multiple of HF_GROUND_GRANULE
 * and aligned to it; NULL if there are none. `lacks` tells how much of some addresses has no memory
 * yet, or any number above `most`. Both are called under the ground's lock and must not allocate.
 * NULL if there is no memory, or there are too many. A ground is never closed. */
struct hf_ground *
hf_ground_open(const struct hf_ground_area *area, void *(*grow)(void *space, size_t size),
               size_t (*lacks)(void *space, const void *at, size_t size, size_t most), void *space);
/* Each has another. */
unsigned hf_ground_number(const struct hf_ground *ground);
enum { HF_GROUNDS_MOST = 4096 };

/* A small block at a multiple of HF_GROUND_ALIGNMENT, of which the size is a multiple too; NULL if
 * grow gave nothing. */
void *hf_ground_take(struct hf_ground *ground, size_t size);
/* Calls visit for each block of that size that the thread has at hand, until it returns false. */
bool hf_ground_each_cached(const struct hf_ground *ground, size_t size,
                           bool (*visit)(void *context, void *at, size_t size), void *context);
/* Gives a small block back that was claimed, or that nobody has seen. */
void hf_ground_give(struct hf_ground *ground, void *at);
/* A large block, of more than HF_GROUND_CACHED bytes in whole pages, at a multiple of a power of
 * two, from the addresses that the ground has: reuses the last freed one of that size, or else
 * takes the free range that fits and lacks the least, the smallest one of several. */
void *hf_ground_take_pages(struct hf_ground *ground, size_t size, size_t alignment);
/* The same for a large block; with `keep`, for a request of its own size first. */
void hf_ground_give_pages(struct hf_ground *ground, void *at, bool keep);
/* Gets `size` more bytes from grow. They never merge with what lies below. */
bool hf_ground_add(struct hf_ground *ground, size_t size);
/* Empties this thread's stacks and merges all free ranges. */
void hf_ground_empty(struct hf_ground *ground);
/* Calls visit for each free range. visit runs under the ground's lock. */
void hf_ground_each_free(struct hf_ground *ground,
                         void (*visit)(void *context, void *at, size_t size), void *context);
/* Bytes in small blocks, live or cached. */
uint64_t hf_ground_small(struct hf_ground *ground);

/* Whoever frees a live block claims it, and then has it alone: it is no longer live, and is to be
 * given back, now or later. False if no live block starts there. Takes no lock. */
bool hf_ground_claim(const struct hf_ground_area *area, void *at);
/* The live block that holds an address of the area; `at` is NULL if there is none. Takes no lock.
 */
struct hf_ground_block {
    void *at;
    size_t size;
    bool small;
    bool was_freed;  /* a block that starts at the address is free, or claimed */
    unsigned number; /* of its ground */
};
struct hf_ground_block hf_ground_find(const struct hf_ground_area *area, const void *at);

/* Once, before anything else. */
void hf_grounds_start(void);
/* In a forked child, where nobody can use a space that was open before. */
void hf_grounds_reset_in_child(void);

/* ---- for the files of this folder ---- */

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
 * state: LIVE; CLAIMED; STACKED in a list of freed ones; FREE. */
#define HF_GROUND_STATE ((uintptr_t)7)
struct hf_ground_large {
    uintptr_t word;
    size_t size;
    struct hf_ground *ground;
    struct hf_ground_large *next; /* in a list of freed ones, or of records that wait for use */
};

struct hf_ground {
    const struct hf_ground_area *area;
    void *(*grow)(void *space, size_t size);
    size_t (*lacks)(void *space, const void *at, size_t size, size_t most);
    void *space;
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

static inline struct hf_ground_entry *hf_ground_entry_in(const struct hf_ground_area *area,
                                                         const void *at)
{
    return (struct hf_ground_entry *)area->entries + ((uintptr_t)at >> HF_GROUND_LG_UNIT);
}
static inline bool hf_ground_has_span(const struct hf_ground_entry *entry)
{
    return __atomic_load_n(&entry->ground, __ATOMIC_ACQUIRE) != 0;
}
static inline struct hf_ground_large *hf_ground_large_of(const struct hf_ground_entry *entry)
{
    return hf_ground_has_span(entry) ? NULL : __atomic_load_n(&entry->large, __ATOMIC_ACQUIRE);
}

/* ground_pages.c, with the ground's lock. */
void hf_ground_ranges_start(struct hf_ground *ground);
/* Takes of the free ranges that fit the one that lacks the least; with `grows`, one of the space if
 * none fits. 0 if there is none. */
uintptr_t hf_ground_range_take(struct hf_ground *ground, size_t size, size_t alignment, bool grows);
void hf_ground_range_give(struct hf_ground *ground, uintptr_t at, size_t size);
/* Frees what waits for a request of its own size. */
void hf_ground_freed_empty(struct hf_ground *ground);

#endif
