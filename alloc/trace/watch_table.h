/*
 * What a watch holds, and the lock of all watches: shared by the side that records (watch.c) and
 * the one that answers (watch_report.c).
 *
 * One mapping a watch, of a fixed size: nothing here allocates from the heap, and what does not fit
 * is counted as dropped. All of it is guarded by one lock, hf_watch_lock(), under which nothing is
 * called; the parts that never change after hf_watch_begin() are read without.
 *
 * side    whose code it was: a shared object, by its link_map and its name, because a link_map may
 *         be another object's later. Before glibc 2.35 objects cannot be found without the loader's
 *         lock, which must not be taken here: a side is a code address then, and gets its name when
 *         somebody asks. The first two are nobody: HF_SIDE_UNKNOWN, HF_SIDE_NO_ROOM.
 * block   an address that was handed out, or freed, at least once
 * pair    two sides, and what went from the one to the other
 */
#ifndef HOMEFREE_WATCH_TABLE_H
#define HOMEFREE_WATCH_TABLE_H

#include "alloc/heap/internal.h"

enum { HF_WATCH_SIDES = 1 << 12, HF_WATCH_PAIRS = 1 << 12, HF_WATCH_NAMES = 1 << 19 };
#define HF_WATCH_ROOM     ((size_t)1 << 19)
#define HF_WATCH_ROOM_MAX ((size_t)1 << 26)

/* Sides that are no object: it could not be known whose code it was; the table was full. Neither
 * says whether a block is live or was handed out at all: an entry's flags do. */
enum { HF_SIDE_UNKNOWN, HF_SIDE_NO_ROOM, HF_SIDE_FIRST };

struct hf_watch_side {
    const void *key; /* link_map, code address, or name; NULL: free */
    uintptr_t base;
    uint32_t name; /* where it begins in `names`; 0: unknown */
    bool is_code;  /* key is a code address */
};

struct hf_watch_entry {
    uintptr_t address; /* 0: free */
    uint64_t size : 61;
    uint64_t live : 1;     /* handed out, and not freed since */
    uint64_t old : 1;      /* it is from before the watch, though live: resized where it is */
    uint64_t was_live : 1; /* when it was freed last: for a realloc that leaves it where it is */
    uint16_t allocated_by, freed_by; /* sides */
    uint32_t allocated, freed, freed_unmatched;
};

struct hf_watch_pair {
    uint64_t count, bytes; /* count 0 and used: undone */
    uint16_t from, to;
    bool used;
};

/* How a watch is worked; by the copy that made it. */
struct hf_watch_functions {
    int (*end)(struct hf_watch *watch);
    void (*drop)(struct hf_watch *watch);
    int (*report)(struct hf_watch *watch, struct hf_watch_report *out, hf_crossing_visitor *visit,
                  void *context);
    int (*at)(struct hf_watch *watch, const void *block, struct hf_watch_block *out);
};

struct hf_watch {
    const struct hf_watch_functions *functions; /* first in every version */
    size_t mapped;
    size_t room, slots; /* addresses to remember; a power of two above it */
    size_t blocks_used, sides_used, pairs_used, names_used;
    bool open;
    uint64_t allocations, frees, before, foreign, dropped;
    struct hf_watch_side sides[HF_WATCH_SIDES];
    struct hf_watch_pair pairs[HF_WATCH_PAIRS];
    char names[HF_WATCH_NAMES];
    struct hf_watch_entry blocks[];
};

static inline size_t hf_watch_hash(uintptr_t value, size_t slots)
{
    return (size_t)((value >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (slots - 1);
}

/* The lock of all watches, and a new one for a forked child. */
void hf_watch_lock(void);
void hf_watch_unlock(void);
void hf_watch_reset(void);

/* The entry of an address, or the free entry where it would be put. Under the lock. */
struct hf_watch_entry *hf_watch_entry_at(struct hf_watch *watch, uintptr_t address);

/* The entry of an address; NULL where there is none. Under the lock. */
struct hf_watch_entry *hf_watch_find(struct hf_watch *watch, uintptr_t address);

/* Keeps a copy of a side's name. Under the lock. */
void hf_watch_name(struct hf_watch *watch, struct hf_watch_side *side, const char *name);

#endif
