/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of entries: for each 32 KiB of the region (a unit), what a free must know of the block
 * that it is given. An entry's memory exists as far as the region does (heap/region.h). All zero:
 * there is no block.
 *
 * Who writes what: the entries of a span belong to the span's owner, that of a large block to
 * large.c. Everybody reads them, without a lock.
 *
 * Terms: a span has blocks of one class, in one or several units. A block's state is one byte, in
 * memory of its own, far from the blocks: nothing that a program writes into its blocks or behind
 * them reaches it.
 */
#ifndef HOMEFREE_ALLOC_SPANS_ENTRY_H
#define HOMEFREE_ALLOC_SPANS_ENTRY_H

#include "alloc/heap/internal.h"

enum { HF_LG_UNIT = 15 };
#define HF_UNIT ((size_t)1 << HF_LG_UNIT)

/* A block's state. malloc stores LIVE without reading; free reads once and stores once: so a pair
 * has no chain of loads and stores through one word. Another thread may only turn LIVE into REMOTE,
 * and SAMPLED or LIMITED into LIVE, by compare-and-exchange; all else is the owner's. NONE stands
 * before a span's first state and behind its last one, where an address that is no block's looks.
 */
enum hf_state {
    HF_FREE = 0,
    HF_STACKED = 1,
    HF_LIVE = 2,
    HF_REMOTE = 3,
    HF_NONE = 4,
    HF_BUSY = 5,     /* on the way to LIVE, or from it (hardened.h) */
    HF_SAMPLED = 6,  /* live, and a sample (samples.h), which the slow paths alone know */
    HF_LIMITED = 128 /* and up: live, and counts for a limit (limited.h) */
};
static inline bool hf_state_is_live(uint8_t state)
{
    return state == HF_LIVE || state == HF_SAMPLED || state >= HF_LIMITED;
}

struct hf_local;
/* The owner of every large block: no local heap, only an address that no other has. */
extern const char hf_large_owner __attribute__((visibility("hidden")));
#define HF_LARGE_OWNER ((struct hf_local *)(uintptr_t)&hf_large_owner)

struct hf_entry {
    struct hf_local *owner; /* NULL: no block. HF_LARGE_OWNER: a large block starts here */
    union {
        uint8_t *state;         /* of index 0; the span's record ends there (span.h) */
        struct hf_large *large; /* large_record.h */
    };
    uint64_t reciprocal; /* of the class's size (classes.h) */
    uint32_t first; /* the low half of the address of index 0, which is never above the span: so no
                       address of the span has a wild index */
    uint8_t class;
    union {
        uint8_t waits;      /* of a large block: freed, and nobody may touch it (hardened.h) */
        uint8_t is_guarded; /* of a unit for spans: nobody may touch its last page (units.h) */
    };
};
_Static_assert(sizeof(struct hf_entry) == 32, "two entries a cache line");
enum { HF_LG_ENTRY = 5 };

/* Indexed by an address >> HF_LG_UNIT. Written once, by hf_spans_start(). */
extern struct hf_entry *hf_entry_table __attribute__((visibility("hidden")));

static inline struct hf_entry *hf_entry_of(const void *ptr)
{
    return &hf_entry_table[(uintptr_t)ptr >> HF_LG_UNIT];
}

static inline bool hf_entry_has_span(const struct hf_entry *entry)
{
    const struct hf_local *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);
    return owner != NULL && owner != HF_LARGE_OWNER;
}

/* The state of the block that starts at an address of a span; false if none can start there. The
 * low half of the difference is enough: spans are small. One multiplication gives the index, above,
 * and whether the size divides the difference, below. */
static inline __attribute__((always_inline)) bool hf_entry_state(const struct hf_entry *entry,
                                                                 const void *ptr, uint8_t **state)
{
    const uint64_t difference = (uint32_t)(uintptr_t)ptr - entry->first;
    const unsigned __int128 product = (unsigned __int128)(uint32_t)difference * entry->reciprocal;
    *state = entry->state + (uint64_t)(product >> 64);
    return (uint64_t)product < entry->reciprocal;
}

#endif
