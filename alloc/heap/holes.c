/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of holes is a treap ordered by address. Every node records the largest hole in its subtree,
 * so that finding the lowest hole that fits does not visit them all. Nodes come from what the owner
 * of the set gave at first, then from mappings of their own outside the region, which are never
 * unmapped. Owns nothing; the only system call is mmap.
 */
#include "alloc/heap/holes.h"

#include <sys/mman.h>

/* ---- nodes ---- */

#define CHUNK ((size_t)64 << 10)

static struct hf_hole *entry(struct hf_holes *holes, uintptr_t start, size_t size)
{
    struct hf_hole *hole = holes->spare;
    if (hole != NULL) {
        holes->spare = hole->low;
    } else {
        if (holes->fresh == holes->fresh_end) {
            void *chunk =
                mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (chunk == MAP_FAILED)
                return NULL;
            holes->fresh = chunk;
            holes->fresh_end = holes->fresh + CHUNK / sizeof *hole;
        }
        hole = holes->fresh++;
    }
    *hole = (struct hf_hole){.start = start, .size = size, .largest = size};
    return hole;
}

static void drop(struct hf_holes *holes, struct hf_hole *hole)
{
    hole->low = holes->spare;
    holes->spare = hole;
}

/* ---- the treap ---- */

/* A hash of the address: random enough, and needs no storage. */
static uint64_t priority(const struct hf_hole *hole)
{
    uint64_t x = hole->start * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static void update(struct hf_hole *hole)
{
    hole->largest = hole->size;
    if (hole->low != NULL && hole->low->largest > hole->largest)
        hole->largest = hole->low->largest;
    if (hole->high != NULL && hole->high->largest > hole->largest)
        hole->largest = hole->high->largest;
}

/* Joins two treaps. Everything in `low` lies below everything in `high`. */
static struct hf_hole *join(struct hf_hole *low, struct hf_hole *high)
{
    if (low == NULL || high == NULL)
        return low != NULL ? low : high;
    if (priority(low) > priority(high)) {
        low->high = join(low->high, high);
        update(low);
        return low;
    }
    high->low = join(low, high->low);
    update(high);
    return high;
}

/* Splits a treap: holes that start below `at` go to `low`, the others to `high`. */
static void split(struct hf_hole *all, uintptr_t at, struct hf_hole **low, struct hf_hole **high)
{
    if (all == NULL) {
        *low = *high = NULL;
    } else if (all->start < at) {
        split(all->high, at, &all->high, high);
        update(all);
        *low = all;
    } else {
        split(all->low, at, low, &all->low);
        update(all);
        *high = all;
    }
}

static void insert(struct hf_holes *holes, struct hf_hole *hole)
{
    struct hf_hole *low, *high;
    split(holes->root, hole->start, &low, &high);
    holes->root = join(join(low, hole), high);
}

/* Removes a hole, which must be in the set. */
static void extract(struct hf_holes *holes, struct hf_hole *hole)
{
    struct hf_hole *low, *rest, *high;
    split(holes->root, hole->start, &low, &rest);
    split(rest, hole->start + 1, &rest, &high);
    holes->root = join(low, high);
    hole->low = hole->high = NULL;
}

/* The last hole that starts at or below an address. */
static struct hf_hole *at_or_below(const struct hf_holes *holes, uintptr_t address)
{
    struct hf_hole *found = NULL;
    for (struct hf_hole *hole = holes->root; hole != NULL;)
        if (hole->start <= address) {
            found = hole;
            hole = hole->high;
        } else {
            hole = hole->low;
        }
    return found;
}

static bool fits(const struct hf_hole *hole, size_t size, size_t alignment, uintptr_t *at)
{
    *at = (hole->start + alignment - 1) & -alignment;
    return *at >= hole->start && *at - hole->start <= hole->size &&
           hole->size - (*at - hole->start) >= size;
}

static struct hf_hole *lowest(struct hf_hole *hole, size_t size, size_t alignment, uintptr_t *at)
{
    if (hole == NULL || hole->largest < size)
        return NULL;
    struct hf_hole *found = lowest(hole->low, size, alignment, at);
    if (found == NULL && fits(hole, size, alignment, at))
        found = hole;
    return found != NULL ? found : lowest(hole->high, size, alignment, at);
}

/* ---- the interface ---- */

static bool merges_at(const struct hf_holes *holes, uintptr_t at)
{
    return holes->is_border == NULL || !holes->is_border(holes, at);
}

void hf_holes_give(struct hf_holes *holes, uintptr_t start, size_t size)
{
    struct hf_hole *before = at_or_below(holes, start);
    struct hf_hole *after = at_or_below(holes, start + size);
    struct hf_hole *hole = NULL;
    if (after != NULL && after->start == start + size && merges_at(holes, after->start)) {
        extract(holes, after);
        size += after->size;
        hole = after;
    }
    if (before != NULL && before->start + before->size == start && merges_at(holes, start)) {
        extract(holes, before);
        start = before->start;
        size += before->size;
        if (hole != NULL)
            drop(holes, hole);
        hole = before;
    }
    if (hole == NULL)
        hole = entry(holes, start, size);
    if (hole == NULL)
        return;
    *hole = (struct hf_hole){.start = start, .size = size, .largest = size};
    insert(holes, hole);
}

void hf_holes_take_at(struct hf_holes *holes, uintptr_t at, size_t size)
{
    struct hf_hole *hole = at_or_below(holes, at);
    const uintptr_t start = hole->start, end = start + hole->size;
    extract(holes, hole);
    drop(holes, hole);
    if (at > start)
        hf_holes_give(holes, start, at - start);
    if (end > at + size)
        hf_holes_give(holes, at + size, end - (at + size));
}

uintptr_t hf_holes_take(struct hf_holes *holes, size_t size, size_t alignment)
{
    uintptr_t at = 0;
    if (lowest(holes->root, size, alignment, &at) == NULL)
        return 0;
    hf_holes_take_at(holes, at, size);
    return at;
}

size_t hf_holes_from(const struct hf_holes *holes, uintptr_t at)
{
    const struct hf_hole *hole = at_or_below(holes, at);
    return hole != NULL && at - hole->start < hole->size ? hole->size - (at - hole->start) : 0;
}

uintptr_t hf_holes_last(const struct hf_holes *holes, uintptr_t end)
{
    const struct hf_hole *last = at_or_below(holes, end);
    return last != NULL && last->start + last->size == end ? last->start : end;
}

static bool visit_all(const struct hf_hole *hole, size_t least,
                      bool (*visit)(void *context, uintptr_t start, size_t size), void *context)
{
    return hole == NULL || hole->largest < least ||
           (visit_all(hole->low, least, visit, context) &&
            (hole->size < least || visit(context, hole->start, hole->size)) &&
            visit_all(hole->high, least, visit, context));
}

void hf_holes_each(const struct hf_holes *holes, size_t least,
                   bool (*visit)(void *context, uintptr_t start, size_t size), void *context)
{
    (void)visit_all(holes->root, least, visit, context);
}
