/*
 * Owns the set of holes: a treap ordered by address. Every node records the largest hole in its
 * subtree, so that finding the lowest hole that fits does not visit them all. Nodes come from a
 * static array first, then from mappings of their own outside the region, which are never unmapped.
 * region.c's lock guards everything; the only system call is mmap.
 */
#include "alloc/heap/holes.h"

#include <stdbool.h>
#include <sys/mman.h>

struct hole {
    uintptr_t start;
    size_t size, largest; /* largest: in this subtree */
    struct hole *low, *high;
};

static struct hole *root;

/* ---- nodes ---- */

#define FIRST_ENTRIES 128
#define CHUNK         ((size_t)64 << 10)

static struct hole first_entries[FIRST_ENTRIES];
static size_t first_used;
static struct hole *spare; /* free nodes, linked by `low` */

static bool add_entries(void)
{
    struct hole *chunk =
        mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED)
        return false;
    for (size_t i = 0; i < CHUNK / sizeof *chunk; i++) {
        chunk[i].low = spare;
        spare = &chunk[i];
    }
    return true;
}

static struct hole *entry(uintptr_t start, size_t size)
{
    struct hole *hole;
    if (spare == NULL && first_used == FIRST_ENTRIES && !add_entries())
        return NULL;
    if (spare != NULL) {
        hole = spare;
        spare = hole->low;
    } else {
        hole = &first_entries[first_used++];
    }
    *hole = (struct hole){.start = start, .size = size, .largest = size};
    return hole;
}

static void drop(struct hole *hole)
{
    hole->low = spare;
    spare = hole;
}

/* ---- the treap ---- */

/* A hash of the address: random enough, and needs no storage. */
static uint64_t priority(const struct hole *hole)
{
    uint64_t x = hole->start * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static void update(struct hole *hole)
{
    hole->largest = hole->size;
    if (hole->low != NULL && hole->low->largest > hole->largest)
        hole->largest = hole->low->largest;
    if (hole->high != NULL && hole->high->largest > hole->largest)
        hole->largest = hole->high->largest;
}

/* Joins two treaps. Everything in `low` lies below everything in `high`. */
static struct hole *join(struct hole *low, struct hole *high)
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
static void split(struct hole *all, uintptr_t at, struct hole **low, struct hole **high)
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

static void insert(struct hole *hole)
{
    struct hole *low, *high;
    split(root, hole->start, &low, &high);
    root = join(join(low, hole), high);
}

/* Removes a hole, which must be in the set. */
static void extract(struct hole *hole)
{
    struct hole *low, *rest, *high;
    split(root, hole->start, &low, &rest);
    split(rest, hole->start + 1, &rest, &high);
    root = join(low, high);
    hole->low = hole->high = NULL;
}

/* The last hole that starts at or below an address. */
static struct hole *at_or_below(uintptr_t address)
{
    struct hole *found = NULL;
    for (struct hole *hole = root; hole != NULL;)
        if (hole->start <= address) {
            found = hole;
            hole = hole->high;
        } else {
            hole = hole->low;
        }
    return found;
}

static bool fits(const struct hole *hole, size_t size, size_t alignment, uintptr_t *at)
{
    *at = (hole->start + alignment - 1) & -alignment;
    return *at >= hole->start && *at - hole->start <= hole->size &&
           hole->size - (*at - hole->start) >= size;
}

static struct hole *lowest(struct hole *hole, size_t size, size_t alignment, uintptr_t *at)
{
    if (hole == NULL || hole->largest < size)
        return NULL;
    struct hole *found = lowest(hole->low, size, alignment, at);
    if (found == NULL && fits(hole, size, alignment, at))
        found = hole;
    return found != NULL ? found : lowest(hole->high, size, alignment, at);
}

/* ---- the interface ---- */

void hf_holes_give(uintptr_t start, size_t size)
{
    struct hole *before = at_or_below(start);
    struct hole *after = at_or_below(start + size);
    bool joins_before = before != NULL && before->start + before->size == start;
    bool joins_after = after != NULL && after->start == start + size;
    struct hole *hole = NULL;
    if (joins_after) {
        extract(after);
        size += after->size;
        hole = after;
    }
    if (joins_before) {
        extract(before);
        start = before->start;
        size += before->size;
        if (hole != NULL)
            drop(hole);
        hole = before;
    }
    if (hole == NULL)
        hole = entry(start, size);
    if (hole == NULL)
        return;
    *hole = (struct hole){.start = start, .size = size, .largest = size};
    insert(hole);
}

uintptr_t hf_holes_take(size_t size, size_t alignment)
{
    uintptr_t at = 0;
    struct hole *hole = lowest(root, size, alignment, &at);
    if (hole == NULL)
        return 0;
    extract(hole);
    uintptr_t start = hole->start, end = start + hole->size;
    drop(hole);
    if (at > start)
        hf_holes_give(start, at - start);
    if (end > at + size)
        hf_holes_give(at + size, end - (at + size));
    return at;
}

uintptr_t hf_holes_last(uintptr_t end)
{
    const struct hole *last = at_or_below(end);
    return last != NULL && last->start + last->size == end ? last->start : end;
}

static void visit_all(const struct hole *hole, void (*visit)(uintptr_t start, size_t size))
{
    if (hole == NULL)
        return;
    visit_all(hole->low, visit);
    visit(hole->start, hole->size);
    visit_all(hole->high, visit);
}

void hf_holes_each(void (*visit)(uintptr_t start, size_t size))
{
    visit_all(root, visit);
}
