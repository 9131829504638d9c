/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual arenas: the addresses of spaces, which nobody here touches, in which blocks are managed
 * as they are in the heap. An arena gets its addresses from an area, the range of one space, which
 * has an entry for each 32 KiB (a unit).
 *
 * Small blocks have size classes of their own, and lie in spans of whole units. A span belongs to
 * its arena, not to a thread: a thread has a stack of blocks for each arena and class that it
 * uses, which it fills and empties under the arena's lock. As any thread may free any block, a
 * block's state goes from LIVE to STACKED by compare-and-exchange, and who succeeds has the block.
 *
 * Large blocks are whole pages, and each has a record. Both, and free ranges, come from the ranges
 * that the space gave.
 *
 * varena_blocks.c has small blocks and what threads keep, varena_pages.c large blocks and free
 * ranges. Blocks of at most HF_VARENA_CACHED bytes are taken and given back without a lock; the
 * others, and free ranges, have the arena's. It comes before the leaf lock of the books' memory.
 * All functions may be called by any thread, not in a signal handler.
 */
#ifndef HOMEFREE_SATELLITES_CUDA_VARENA_VARENA_H
#define HOMEFREE_SATELLITES_CUDA_VARENA_VARENA_H

#include "alloc/heap/holes.h"
#include "satellites/cuda/varena/varena_threads.h"

#include <pthread.h>

/* ---- areas ---- */

enum { HF_VARENA_LG_UNIT = 15, HF_VARENA_LG_ENTRY = 5 };
#define HF_VARENA_UNIT ((size_t)1 << HF_VARENA_LG_UNIT)

/* A block's state: one byte, far from the block. NONE stands behind a span's last one. */
enum hf_varena_state {
    HF_FREE = 0,
    HF_STACKED = 1, /* in a thread's stack, or in a list of freed large blocks */
    HF_LIVE = 2,
    HF_CLAIMED = 3, /* by whoever frees it */
    HF_NONE = 4
};

/* What lies in a unit; everybody reads it, without a lock. All zero: nothing. */
struct hf_varena_entry {
    union {
        uint8_t *state;                /* of index 0; the span's record ends there */
        struct hf_varena_large *large; /* that starts in the unit */
    };
    uint64_t reciprocal; /* of the class's size */
    uint32_t first;      /* the low half of the address of index 0 */
    uint16_t varena;     /* 0 but in spans, where it is 1 more than the arena's number */
    uint8_t class;       /* 0 but in spans of which the fast paths may take back blocks */
    uint8_t is_border;   /* a range begins here */
} __attribute__((aligned(1 << HF_VARENA_LG_ENTRY)));
_Static_assert(sizeof(struct hf_varena_entry) == 1 << HF_VARENA_LG_ENTRY,
               "two entries a cache line");

struct hf_varena_area {
    uintptr_t base; /* a multiple of HF_VARENA_GRANULE */
    size_t size;
    void *entries; /* as if they were indexed by an address >> HF_VARENA_LG_UNIT */
};
/* False if there is no memory. */
bool hf_varena_area_open(struct hf_varena_area *area, uintptr_t base, size_t size);
/* Undoes that, before there is an arena. */
void hf_varena_area_close(struct hf_varena_area *area);

/* ---- arenas ---- */

/* `grow` gives an arena more addresses of its area: `size` bytes, a multiple of HF_VARENA_GRANULE
 * and aligned to it; NULL if there are none. `lacks` tells how much of some addresses has no memory
 * yet, or any number above `most`. Both are called under the arena's lock and must not allocate.
 * NULL if there is no memory, or there are too many. An arena is never closed. */
struct hf_varena *
hf_varena_open(const struct hf_varena_area *area, void *(*grow)(void *space, size_t size),
               size_t (*lacks)(void *space, const void *at, size_t size, size_t most), void *space);
/* Each has another. */
unsigned hf_varena_number(const struct hf_varena *varena);
enum { HF_VARENAS_MOST = 4096 };

/* A small block at a multiple of HF_VARENA_ALIGNMENT, of which the size is a multiple too; NULL if
 * grow gave nothing. */
void *hf_varena_take(struct hf_varena *varena, size_t size);
/* Calls visit for each block of that size that the thread has at hand, until it returns false. */
bool hf_varena_each_cached(const struct hf_varena *varena, size_t size,
                           bool (*visit)(void *context, void *at, size_t size), void *context);
/* Gives a small block back that was claimed, or that nobody has seen. */
void hf_varena_give(struct hf_varena *varena, void *at);
/* A large block, of more than HF_VARENA_CACHED bytes in whole pages, at a multiple of a power of
 * two, from the addresses that the arena has: reuses the last freed one of that size, or else
 * takes the free range that fits and lacks the least, the smallest one of several. */
void *hf_varena_take_pages(struct hf_varena *varena, size_t size, size_t alignment);
/* The same for a large block; with `keep`, for a request of its own size first. */
void hf_varena_give_pages(struct hf_varena *varena, void *at, bool keep);
/* Gets `size` more bytes from grow. They never merge with what lies below. */
bool hf_varena_add(struct hf_varena *varena, size_t size);
/* Empties this thread's stacks and merges all free ranges. */
void hf_varena_empty(struct hf_varena *varena);
/* Calls visit for each free range. visit runs under the arena's lock. */
void hf_varena_each_free(struct hf_varena *varena,
                         void (*visit)(void *context, void *at, size_t size), void *context);
/* Bytes in small blocks, live or cached. */
uint64_t hf_varena_small(struct hf_varena *varena);

/* Whoever frees a live block claims it, and then has it alone: it is no longer live, and is to be
 * given back, now or later. False if no live block starts there. Takes no lock. */
bool hf_varena_claim(const struct hf_varena_area *area, void *at);
/* The live block that holds an address of the area; `at` is NULL if there is none. Takes no lock.
 */
struct hf_varena_block {
    void *at;
    size_t size;
    bool small;
    bool was_freed;  /* a block that starts at the address is free, or claimed */
    unsigned number; /* of its arena */
};
struct hf_varena_block hf_varena_find(const struct hf_varena_area *area, const void *at);

/* Once, before anything else. */
void hf_varenas_start(void);
/* In a forked child, where nobody can use a space that was open before. */
void hf_varenas_reset_in_child(void);

/* ---- for the files of this directory ---- */

enum {
    HF_VARENA_FREED = 64,     /* lists, by size */
    HF_VARENA_FREED_MAX = 512 /* blocks */
};

struct hf_varena_span {
    struct hf_varena_span *next, *previous; /* among those of its class that have free blocks, or
                                               the records that wait for use */
    struct hf_varena *varena;
    uintptr_t start;
    uint16_t blocks, free;
    uint8_t class;
};
/* The states follow, and are at a cache line. */
enum { HF_VARENA_SPAN = 64 };
_Static_assert(sizeof(struct hf_varena_span) <= HF_VARENA_SPAN, "states begin at a cache line");

/* A record that is never anything else. `word`, which is atomic, is the block's address and its
 * state: LIVE; CLAIMED; STACKED in a list of freed ones; FREE. */
#define HF_VARENA_STATE ((uintptr_t)7)
struct hf_varena_large {
    uintptr_t word;
    size_t size;
    struct hf_varena *varena;
    struct hf_varena_large *next; /* in a list of freed ones, or of records that wait for use */
};

struct hf_varena {
    const struct hf_varena_area *area;
    void *(*grow)(void *space, size_t size);
    size_t (*lacks)(void *space, const void *at, size_t size, size_t most);
    void *space;
    unsigned number;
    bool is_fast;         /* atomic: it is the arena of a fast space */
    pthread_mutex_t lock; /* of all that follows */
    struct hf_holes free;
    struct hf_varena_span *spans[HF_VARENA_CLASSES], *idle_spans[HF_VARENA_CLASSES];
    uint64_t small; /* bytes in small blocks that are not free */
    struct hf_varena_large *freed[HF_VARENA_FREED], *idle_large;
    size_t freed_count;
    struct hf_varena *next;
};

static inline struct hf_varena_entry *hf_varena_entry_in(const struct hf_varena_area *area,
                                                         const void *at)
{
    return (struct hf_varena_entry *)area->entries + ((uintptr_t)at >> HF_VARENA_LG_UNIT);
}
static inline bool hf_varena_has_span(const struct hf_varena_entry *entry)
{
    return __atomic_load_n(&entry->varena, __ATOMIC_ACQUIRE) != 0;
}
static inline struct hf_varena_large *hf_varena_large_of(const struct hf_varena_entry *entry)
{
    return hf_varena_has_span(entry) ? NULL : __atomic_load_n(&entry->large, __ATOMIC_ACQUIRE);
}

/* varena_pages.c, with the arena's lock. */
void hf_varena_ranges_start(struct hf_varena *varena);
/* Takes of the free ranges that fit the one that lacks the least; with `grows`, one of the space if
 * none fits. 0 if there is none. */
uintptr_t hf_varena_range_take(struct hf_varena *varena, size_t size, size_t alignment, bool grows);
void hf_varena_range_give(struct hf_varena *varena, uintptr_t at, size_t size);
/* Frees what waits for a request of its own size. */
void hf_varena_freed_empty(struct hf_varena *varena);

#endif
