/*
 * Owns the table of candidates: filled under the loader's lock, read and decided without one. See
 * homes.h.
 */
#include "homes.h"

#include "allocators.h"
#include "foreign.h"
#include "neighbours.h"
#include "owner.h"
#include "ranges.h"
#include "stubs.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANDIDATES_MAX = 256 };

/* `decided`: a neighbour's number, or one of these. */
enum { UNDECIDED = -1, BEING_DECIDED = -2, NOTHING = -3 };

/* `map` is written last, and cleared first. */
static struct candidate {
    _Atomic(const struct link_map *) map;
    _Atomic(int) decided;
    _Atomic(unsigned) number; /* while it is being decided: what pages are recorded under */
    _Atomic(bool) used;       /* some were */
    uintptr_t base;
    const void *dynamic;
} candidates[CANDIDATES_MAX];
static atomic_size_t candidates_count; /* one past the last that was ever used */

bool hf_homes_is_candidate(const struct link_map *map)
{
    for (size_t i = 0; i < candidates_count; i++)
        if (candidates[i].map == map)
            return true;
    return false;
}

void hf_homes_candidate(const struct link_map *map, unsigned number)
{
    size_t place = CANDIDATES_MAX;
    for (size_t i = 0; i < candidates_count; i++) {
        if (candidates[i].map == map)
            return;
        if (candidates[i].map == NULL && place == CANDIDATES_MAX)
            place = i;
    }
    if (place == CANDIDATES_MAX)
        place = candidates_count;
    if (place == CANDIDATES_MAX)
        return;
    candidates[place].decided = number != 0 ? (int)number : UNDECIDED;
    candidates[place].number = 0;
    candidates[place].used = false;
    candidates[place].base = map->l_addr;
    candidates[place].dynamic = map->l_ld;
    candidates[place].map = map;
    if (place == candidates_count)
        candidates_count = place + 1;
}

static bool is_loaded(const struct candidate *candidate)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            if (map == candidate->map)
                return map->l_addr == candidate->base && map->l_ld == candidate->dynamic;
    return false;
}

/* What an unloaded object mapped may be mapped still, but nobody can say whose it is now. Objects
 * whose functions are called are pinned, and never come here. */
void hf_homes_forget(void)
{
    for (size_t i = 0; i < candidates_count; i++) {
        struct candidate *candidate = &candidates[i];
        if (candidate->map == NULL || is_loaded(candidate))
            continue;
        candidate->map = NULL;
        if (candidate->decided > 0) {
            hf_ranges_forget((unsigned)candidate->decided);
            hf_neighbour_give_back((unsigned)candidate->decided);
        }
    }
}

/* ---- deciding about a stripped object ---- */

static void search_segment(bool found[], const char *start, size_t size)
{
    for (size_t i = 0; i < hf_allocator_strings_count; i++)
        if (!found[hf_allocator_strings[i].allocator] &&
            memmem(start, size, hf_allocator_strings[i].text, hf_allocator_strings[i].length) !=
                NULL)
            found[hf_allocator_strings[i].allocator] = true;
}

/* Makes a neighbour of what lives inside, which can be neither asked nor called; false if nothing
 * does. */
static bool search_strings(const struct link_map *map, unsigned number)
{
    bool found[HF_ALLOCATOR_COUNT] = {false};
    struct hf_object object;
    if (!hf_dynlink_open(map, &object))
        return false;
    hf_object_segments(&object);
    for (size_t i = 0; i < object.constant_count; i++)
        search_segment(found, (const char *)object.constant[i].start, object.constant[i].size);
    return !hf_allocator_strings_all(found) && hf_neighbour_silent(number, map, found);
}

static int decide(struct candidate *candidate)
{
    int expected = UNDECIDED;
    if (candidate->decided != UNDECIDED ||
        !atomic_compare_exchange_strong(&candidate->decided, &expected, BEING_DECIDED))
        return candidate->decided;
    unsigned number = hf_neighbour_reserve();
    candidate->number = number;
    bool found = number != 0 && search_strings(candidate->map, number);
    candidate->decided = found ? (int)number : NOTHING;
    if (number != 0 && !found && !candidate->used)
        hf_neighbour_give_back(number);
    if (found)
        hf_stubs_ask_neighbours();
    return candidate->decided;
}

/* The number under which a caller's mappings are recorded; 0: they are not. */
static unsigned number_of_caller(const void *caller)
{
    const struct link_map *map = hf_dynlink_find_fast(caller);
    for (size_t i = 0, count = candidates_count; map != NULL && i < count; i++) {
        struct candidate *candidate = &candidates[i];
        if (candidate->map != map)
            continue;
        int decided = decide(candidate);
        if (decided == BEING_DECIDED) { /* by another thread, or below this signal handler */
            candidate->used = true;
            return candidate->number;
        }
        return decided > 0 ? (unsigned)decided : 0;
    }
    return 0;
}

/* ---- what the stubs tell ---- */

/* As the kernel rounds the size of a mapping. */
static size_t whole_pages(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & -page;
}

void *hf_homes_mapped(void *at, size_t size, int flags, const void *caller)
{
    if (at == MAP_FAILED)
        return at;
    int saved_errno = errno;
    bool plain = (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_TYPE) == MAP_PRIVATE;
    unsigned number = plain && candidates_count != 0 ? number_of_caller(caller) : 0;
    size = whole_pages(size);
    if (number != 0 || hf_ranges_any(at, size))
        hf_ranges_set(at, size, number);
    errno = saved_errno;
    return at;
}

bool hf_homes_know(const void *address, size_t size)
{
    return hf_ranges_any(address, size);
}

unsigned hf_homes_unmapping(void *address, size_t size)
{
    const uintptr_t start = (uintptr_t)address, limit = (uintptr_t)1 << HF_RANGE_BITS;
    if ((start & (HF_RANGE_PAGE - 1)) != 0 || start >= limit || size > limit - start ||
        !hf_ranges_any(address, size))
        return HF_RANGE_UNKNOWN;
    size = whole_pages(size);
    unsigned number = hf_ranges_id(address);
    /* Put back after a failure only what was one neighbour's; the rest is unknown then. */
    bool one = hf_ranges_id((const char *)address + size - 1) == number;
    hf_ranges_set(address, size, HF_RANGE_UNKNOWN);
    return one ? number : HF_RANGE_UNKNOWN;
}

long hf_homes_kept(void *address, size_t size, unsigned number, long result)
{
    if (number != HF_RANGE_UNKNOWN)
        hf_ranges_set(address, whole_pages(size), number);
    return result;
}

struct hf_homes_move hf_homes_moving(void *address, size_t size, size_t new_size, int flags)
{
    struct hf_homes_move move = {address, whole_pages(size), whole_pages(new_size),
                                 hf_ranges_id(address), (flags & MREMAP_MAYMOVE) != 0};
    if (move.number == HF_RANGE_UNKNOWN)
        return move;
    /* What stays where it is has live blocks that may be freed meanwhile. */
    if (move.may_move)
        hf_ranges_set(move.from, move.size, HF_RANGE_UNKNOWN);
    else if (move.new_size < move.size)
        hf_ranges_set(move.from + move.new_size, move.size - move.new_size, HF_RANGE_UNKNOWN);
    return move;
}

void *hf_homes_moved(const struct hf_homes_move *move, void *at)
{
    if (move->number == HF_RANGE_UNKNOWN)
        return at;
    int saved_errno = errno;
    if (at != MAP_FAILED)
        hf_ranges_set(at, move->new_size, move->number);
    else
        hf_ranges_set(move->from, move->size, move->number);
    errno = saved_errno;
    return at;
}

void hf_homes_break_is_shared(void)
{
    hf_owner_break_is_shared = true;
}

void *hf_homes_break(void *before, intptr_t increment, const void *caller)
{
    if (before == (void *)-1 || increment == 0)
        return before;
    int saved_errno = errno;
    char *at = before;
    unsigned number = number_of_caller(caller);
    if (number == 0)
        hf_homes_break_is_shared();
    if (increment < 0)
        hf_ranges_set(at + increment, (size_t)-increment, HF_RANGE_UNKNOWN);
    else
        hf_ranges_set(at, (size_t)increment, number);
    errno = saved_errno;
    return before;
}
