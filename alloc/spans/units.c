/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See units.h. Owns the granules and their lists; the spans' lock guards them.
 */
#include "alloc/spans/units.h"

#include "alloc/heap/region.h"
#include "alloc/pages/pages.h"
#include "alloc/pages/present.h"
#include "alloc/spans/classes.h"
#include "alloc/spans/guard_pages.h"
#include "alloc/spans/guards.h"

#include <string.h>
#include <sys/mman.h>

enum { LG_GRANULE = HF_LG_UNIT + 6, LG_RECORD = 6 };

/* In a table parallel to the region. One bit a unit. */
struct granule {
    uint64_t have;   /* pages/ gave it */
    uint64_t pieces; /* it is the first one of a piece */
    uint64_t free;   /* no span has it */
    uint64_t rested; /* it has been free since the last hf_units_trim() */
    uint64_t dirty;  /* it may have memory */
    struct granule *next, *previous;
    uint64_t run; /* the list's number; 0: in none */
};
_Static_assert(sizeof(struct granule) == 1 << LG_RECORD, "one cache line");

static struct granule *table;
/* By the longest run of free units; the last list is of those with nothing else, which are used
 * when there is no other, so that they can go back. */
enum { WHOLE = HF_UNITS_MOST + 1 };
static struct granule *lists[WHOLE + 1];
static size_t all, unused;  /* units; both read without the lock, too */
static size_t unused_dirty; /* those of the unused that may have memory; the same */
/* Local heaps. Each has spans of its own that are partly used, so that huge pages would hold much
 * that is not, unless there is more for each of them. */
enum { USERS_MOST = 8 };
static size_t users = 1;

/* Pieces: an eighth of what there is, at least 256 KiB, so that a small program stays small, and
 * at most a granule. As much may be free before whole pieces go back at once. */
enum { LEAST = 8, MOST = 64, SHARE = 8 };

static char *address_of(const struct granule *granule, unsigned unit)
{
    return (char *)hf_region.base + ((size_t)(granule - table) << LG_GRANULE) +
           ((size_t)unit << HF_LG_UNIT);
}

static struct granule *granule_of(const char *at, unsigned *unit)
{
    const size_t offset = (uintptr_t)at - hf_region.base;
    *unit = (unsigned)(offset >> HF_LG_UNIT) % 64;
    return &table[offset >> LG_GRANULE];
}

static void count_dirty(uint64_t mask, bool more)
{
    const size_t units = (size_t)__builtin_popcountll(mask);
    __atomic_store_n(&unused_dirty, more ? unused_dirty + units : unused_dirty - units,
                     __ATOMIC_RELAXED);
}

/* `units` bits, the lowest of which is that of a unit. */
static uint64_t bits(unsigned unit, unsigned units)
{
    return UINT64_MAX >> (64 - units) << unit;
}

/* The units from which on as many are free. */
static uint64_t runs_of(uint64_t free, unsigned units)
{
    for (unsigned i = 1; i < units && free != 0; i++)
        free &= free >> 1;
    return free;
}

static void enlist(struct granule *granule)
{
    unsigned run = 0;
    for (uint64_t left = granule->free; left != 0 && run < HF_UNITS_MOST; left &= left >> 1)
        run++;
    if (run == HF_UNITS_MOST && granule->free == granule->have)
        run = WHOLE;
    if (run == granule->run)
        return;
    if (granule->run != 0) {
        *(granule->previous != NULL ? &granule->previous->next : &lists[granule->run]) =
            granule->next;
        if (granule->next != NULL)
            granule->next->previous = granule->previous;
    }
    granule->run = run;
    if (run == 0)
        return;
    granule->previous = NULL;
    granule->next = lists[run];
    if (granule->next != NULL)
        granule->next->previous = granule;
    lists[run] = granule;
}

void hf_units_have_users(uint64_t count)
{
    users = count < USERS_MOST ? count : USERS_MOST;
}

bool hf_units_start(void)
{
    table = (struct granule *)(void *)hf_region_table(LG_GRANULE - LG_RECORD);
    return table != NULL;
}

/* In the hardened tier, free memory is clear. */
static char *take_piece(size_t size, size_t alignment, bool *fresh)
{
    char *at = hf_pages_take_fresh(size, alignment, fresh);
    if (HF_LIKELY(hf_hardened == 0) || at == NULL || *fresh)
        return at;
    *fresh = hf_guard_pages_clear(at, size);
    return at;
}

/* A piece lies at a multiple of a power of two, and so in one granule. */
static bool more(unsigned units)
{
    unsigned alignment = LEAST, unit;
    while (alignment < MOST &&
           (all >= (size_t)2 * SHARE * alignment || hf_hardened_has(HF_HARDENED_SCATTER)))
        alignment *= 2;
    size_t size = alignment * HF_UNIT;
    bool fresh;
    char *at = take_piece(size, size, &fresh);
    if (at == NULL) {
        size = units * HF_UNIT;
        for (alignment = 1; alignment < units;)
            alignment *= 2;
        at = take_piece(size, alignment * HF_UNIT, &fresh);
    }
    if (at == NULL)
        return false;
    struct granule *granule = granule_of(at, &unit);
    const unsigned count = (unsigned)(size >> HF_LG_UNIT);
    const uint64_t mask = bits(unit, count);
    /* Large blocks leave their entries behind. */
    memset(hf_entry_of(at), 0, count * sizeof(struct hf_entry));
    granule->have |= mask;
    granule->pieces |= (uint64_t)1 << unit;
    granule->free |= mask;
    granule->rested &= ~mask;
    granule->dirty &= ~mask;
    if (!fresh) { /* who knows */
        granule->dirty |= mask;
        count_dirty(mask, true);
    }
    if (fresh && size == HF_PAGE_2M &&
        hf_present_ahead(all * HF_UNIT / users, hf_pages_taken()) >= size)
        hf_present_huge(at, size);
    __atomic_store_n(&all, all + count, __ATOMIC_RELAXED);
    __atomic_store_n(&unused, unused + count, __ATOMIC_RELAXED);
    enlist(granule);
    return true;
}

/* The lowest of these bits; with checks:hardened, any one. */
static unsigned choose(uint64_t from)
{
    unsigned turn = 0;
    if (HF_UNLIKELY(hf_hardened_has(HF_HARDENED_SCATTER))) {
        static uint64_t takes;
        turn = hf_guard_hash((void *)(uintptr_t)++takes) % 64;
    }
    return ((unsigned)__builtin_ctzll(from >> turn | from << (-turn % 64)) + turn) % 64;
}

void hf_unit_is_open(const char *at)
{
    hf_entry_of(at)->is_guarded = false;
}

static char *last_page(char *unit)
{
    return unit + HF_UNIT - hf_guard_page();
}

/* False if nobody may touch it for ever. */
static bool open_unit(char *at)
{
    struct hf_entry *entry = hf_entry_of(at);
    if (entry->is_guarded && !hf_guard_pages_open(last_page(at), hf_guard_page()))
        return false;
    entry->is_guarded = false;
    return true;
}

/* False: they cannot be used side by side. */
static bool guard(char *at, unsigned units)
{
    if (HF_LIKELY(hf_guard_page() == 0))
        return true;
    for (unsigned i = 0; i + 1 < units; i++)
        if (HF_UNLIKELY(!open_unit(at + i * HF_UNIT)))
            return false;
    char *last = at + (units - 1) * HF_UNIT;
    if (!hf_entry_of(last)->is_guarded)
        hf_guard_pages_close(last_page(last), hf_guard_page());
    hf_entry_of(last)->is_guarded = true;
    return true;
}

/* What is hardened looks at memory before it writes there, which takes two faults a page. A huge
 * page, if there can be one, comes before pages that nobody may touch, and is split by them. */
static void make_present(char *at, size_t size)
{
    if (hf_present_ahead(all * HF_UNIT / users, hf_pages_taken()) >= size)
        hf_present_make(at, size - hf_guard_page());
}

/* The list of the shortest runs that are long enough; behind all if there is none. */
static unsigned shortest(unsigned units)
{
    unsigned run = units;
    while (run <= WHOLE && lists[run] == NULL)
        run++;
    return run;
}

bool hf_units_have(unsigned units)
{
    return shortest(units) <= WHOLE;
}

char *hf_units_take(unsigned units)
{
    unsigned run = shortest(units);
    if (run > WHOLE) {
        if (!more(units))
            return NULL;
        run = shortest(units);
    }
    struct granule *granule = lists[run];
    const unsigned unit = choose(runs_of(granule->free, units));
    const uint64_t mask = bits(unit, units);
    const bool fresh = (granule->dirty & mask) == 0;
    count_dirty(granule->dirty & mask, false);
    granule->free &= ~mask;
    granule->dirty |= mask;
    __atomic_store_n(&unused, unused - units, __ATOMIC_RELAXED);
    enlist(granule);
    char *at = address_of(granule, unit);
    if (HF_LIKELY(hf_hardened == 0))
        return at;
    if (fresh)
        make_present(at, units * HF_UNIT);
    return HF_LIKELY(guard(at, units)) ? at : hf_units_take(units); /* these are lost */
}

/* False: the kernel keeps some of them from being used otherwise. */
static bool open_units(char *at, unsigned count)
{
    bool all_open = true;
    for (unsigned i = 0; hf_guard_page() != 0 && i < count; i++)
        all_open &= open_unit(at + i * HF_UNIT);
    return all_open;
}

/* Those of the units `among` that belong to pieces of which nothing else is left go to pages/. */
static void give_pieces(struct granule *granule, uint64_t among)
{
    for (uint64_t pieces = granule->pieces; pieces != 0; pieces &= pieces - 1) {
        const unsigned unit = (unsigned)__builtin_ctzll(pieces);
        const uint64_t others = (pieces & (pieces - 1)) | ~granule->have;
        const uint64_t behind = unit < 63 ? others & UINT64_MAX << (unit + 1) : 0;
        const unsigned end = behind != 0 ? (unsigned)__builtin_ctzll(behind) : 64;
        const uint64_t mask = bits(unit, end - unit);
        if ((among & mask) != mask ||
            HF_UNLIKELY(!open_units(address_of(granule, unit), end - unit)))
            continue;
        count_dirty(granule->dirty & mask, false);
        granule->have &= ~mask;
        granule->pieces &= ~mask;
        granule->free &= ~mask;
        __atomic_store_n(&all, all - (end - unit), __ATOMIC_RELAXED);
        __atomic_store_n(&unused, unused - (end - unit), __ATOMIC_RELAXED);
        /* What was there is forgotten (hf_span_was). */
        memset(hf_entry_of(address_of(granule, unit)), 0, (end - unit) * sizeof(struct hf_entry));
        hf_pages_give(address_of(granule, unit), (end - unit) * HF_UNIT);
    }
}

void hf_units_give(char *at, unsigned units)
{
    unsigned unit;
    struct granule *granule = granule_of(at, &unit);
    granule->free |= bits(unit, units);
    granule->rested &= ~bits(unit, units);
    count_dirty(bits(unit, units), true);
    __atomic_store_n(&unused, unused + units, __ATOMIC_RELAXED);
    if (unused > MOST + all / SHARE)
        give_pieces(granule, granule->free);
    enlist(granule);
}

/* Gives the memory of units back to the system, neighbours at once. */
static void clean(struct granule *granule, uint64_t mask)
{
    count_dirty(mask, false);
    granule->dirty &= ~mask;
    while (mask != 0) {
        const unsigned unit = (unsigned)__builtin_ctzll(mask);
        const uint64_t rest = ~(mask >> unit);
        const unsigned count = rest != 0 ? (unsigned)__builtin_ctzll(rest) : 64;
        (void)madvise(address_of(granule, unit), count * HF_UNIT, MADV_DONTNEED);
        mask &= ~bits(unit, count);
    }
}

void hf_units_trim(bool everything)
{
    for (unsigned run = 1; run <= WHOLE; run++)
        for (struct granule *granule = lists[run], *next; granule != NULL; granule = next) {
            next = granule->next;
            give_pieces(granule, everything ? granule->free : granule->free & granule->rested);
            clean(granule,
                  granule->free & granule->dirty & (everything ? UINT64_MAX : granule->rested));
            granule->rested = granule->free;
            enlist(granule); /* in the list of a shorter run, or in none */
        }
}

bool hf_units_are_idle(void)
{
    return unused_dirty > (size_t)4 * MOST && unused > all / 2;
}

uint64_t hf_units_dirty(void)
{
    return (uint64_t)__atomic_load_n(&unused_dirty, __ATOMIC_RELAXED) << HF_LG_UNIT;
}

uint64_t hf_units_clean(void)
{
    const size_t left = __atomic_load_n(&unused, __ATOMIC_RELAXED);
    const size_t dirty = __atomic_load_n(&unused_dirty, __ATOMIC_RELAXED);
    return left > dirty ? (uint64_t)(left - dirty) << HF_LG_UNIT : 0;
}

size_t hf_units_used(void)
{
    const size_t left = __atomic_load_n(&unused, __ATOMIC_RELAXED);
    const size_t sum = __atomic_load_n(&all, __ATOMIC_RELAXED);
    return sum > left ? (sum - left) << HF_LG_UNIT : 0;
}
