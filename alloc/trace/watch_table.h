/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contents of a watch, and the lock of all watches; shared by the recording side (watch.c) and
 * the reading side (watch_report.c).
 *
 * A watch is one mapping of fixed size: nothing here allocates from the heap, and records that do
 * not fit are counted as dropped. One lock, hf_watch_lock(), guards everything, and nothing is
 * called under it; fields that never change after hf_watch_begin() are read without it.
 *
 * side    the origin of a call: a shared object, identified by link_map and name, because another
 *         object may reuse the link_map. Before glibc 2.35 finding the object takes the loader's
 *         lock, which recording must not take: there a side is a code address, named when the watch
 *         is read. The first two sides are no objects: HF_SIDE_UNKNOWN, HF_SIDE_NO_ROOM.
 * block   an address that was allocated, or freed, at least once
 * pair    two sides, and the blocks that went from the one to the other
 */
#ifndef HOMEFREE_ALLOC_TRACE_WATCH_TABLE_H
#define HOMEFREE_ALLOC_TRACE_WATCH_TABLE_H

#include "alloc/heap/internal.h"

#include <pthread.h>

enum { HF_WATCH_SIDES = 1 << 12, HF_WATCH_PAIRS = 1 << 12, HF_WATCH_NAMES = 1 << 19 };
#define HF_WATCH_ROOM     ((size_t)1 << 19)
#define HF_WATCH_ROOM_MAX ((size_t)1 << 26)

/* Sides that are no object: the origin is unknown; the table was full. Neither says whether a block
 * is live or was ever allocated: the entry's flags do. */
enum { HF_SIDE_UNKNOWN, HF_SIDE_NO_ROOM, HF_SIDE_FIRST };

struct hf_watch_side {
    const void *key; /* link_map, code address or name; NULL: unused */
    uintptr_t base;
    uint32_t name;             /* offset in `names`; 0: unknown */
    bool is_code;              /* key is a code address */
    uint64_t left, left_bytes; /* blocks that it allocated since the watch began, and live */
};

struct hf_watch_entry {
    uintptr_t address; /* 0: unused */
    uint64_t size : 60;
    uint64_t live : 1;      /* allocated and not freed since */
    uint64_t old : 1;       /* allocated before the watch began, though live: resized in place */
    uint64_t was_live : 1;  /* at the last free, in case a realloc leaves the block in place */
    uint64_t elsewhere : 1; /* allocated by another thread than the one that began the watch */
    uint16_t allocated_by, freed_by; /* sides */
    uint32_t allocated, freed, freed_unmatched;
};

struct hf_watch_pair {
    uint64_t count, bytes; /* count 0 and used: undone */
    uint16_t from, to;
    bool used;
};

/* A watch's operations, in the copy that created it. */
struct hf_watch_functions {
    int (*end)(struct hf_watch *watch);
    void (*drop)(struct hf_watch *watch);
    int (*report)(struct hf_watch *watch, struct hf_watch_report *out, hf_crossing_visitor *visit,
                  void *context);
    int (*at)(struct hf_watch *watch, const void *block, struct hf_watch_block *out);
    int (*left)(struct hf_watch *watch, hf_left_visitor *visit, void *context);
};

struct hf_watch {
    const struct hf_watch_functions *functions; /* first in every version */
    size_t mapped;
    size_t capacity, slots; /* addresses to remember; power of two, at least twice that */
    size_t blocks_used, sides_used, pairs_used, names_used;
    bool open;
    pthread_t thread; /* that began it */
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

/* The lock of all watches. */
void hf_watch_lock(void);
void hf_watch_unlock(void);

/* The entry of an address, or the unused entry for it. Under the lock. */
struct hf_watch_entry *hf_watch_entry_at(struct hf_watch *watch, uintptr_t address);

/* The entry of an address, or NULL. Under the lock. */
struct hf_watch_entry *hf_watch_find(struct hf_watch *watch, uintptr_t address);

/* Stores a copy of a side's name. Under the lock. */
void hf_watch_name(struct hf_watch *watch, struct hf_watch_side *side, const char *name);

#endif
