/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of candidates. Entries are added with `inserting` held, by routing passes (under
 * the loader's lock) and by stubs; they are read and decided without a lock. See mmap_tracking.h.
 */
#include "loader/foreign/mmap_tracking.h"

#include "alloc/base/apart.h"
#include "alloc/base/options.h"
#include "alloc/owner/foreign.h"
#include "alloc/owner/foreign_pages.h"
#include "alloc/owner/libc_heap.h"
#include "loader/foreign/allocator_strings.h"
#include "loader/foreign/asking.h"
#include "loader/foreign/known_allocators.h"
#include "loader/foreign/silent.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANDIDATES_MAX = 256 };

/* `state`: the number of a foreign allocator, or one of these. */
enum {
    UNDECIDED = -1,
    BEING_DECIDED = -2,
    NOTHING = -3,
    PROVISIONAL = -4 /* mapped memory in its constructors, before a pass saw it */
};

/* `map` is set last and cleared first. */
static struct candidate {
    _Atomic(const struct link_map *) map;
    atomic_int state;
    atomic_uint number;             /* pages are recorded under it until the decision; 0: none */
    atomic_uint recording;          /* calls that may be about to record under `number` */
    atomic_bool has_pages;          /* pages were recorded */
    atomic_bool moved_break;        /* moved the program break while provisional */
    bool named[HF_ALLOCATOR_COUNT]; /* allocators whose strings its file contains */
    uintptr_t base;
    const void *dynamic;
    uint64_t name; /* hash_of_name(): a later object may lie where this one lay */
} candidates[CANDIDATES_MAX] HF_APART;
static atomic_size_t candidates_count; /* one past the last entry ever used */

static atomic_bool inserting;

/* Threads that were inserting or deciding do not exist in the child; others repeat their work.
 * Deciding again publishes the same allocator again. */
static void in_child(void)
{
    if (inserting)
        inserting = false;
    for (size_t i = 0; i < candidates_count; i++) {
        int state = BEING_DECIDED;
        if (candidates[i].state == state)
            (void)atomic_compare_exchange_strong(&candidates[i].state, &state, UNDECIDED);
    }
}

void hf_tracking_start(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static atomic_uint loading; /* calls of dlopen() in progress */

/* ---- strings of stripped objects ---- */

/* The most that is read of an object's constants: some have hundreds of megabytes of tables. */
#define SCANNED_MOST (UINT64_C(16) << 20)

/* An object with more local symbols than this is not stripped. Its symbols have been searched for
 * allocators, and strings add nothing. */
#define LOCAL_NAMES 1000

/* The path may lead to another file by now, whose dynamic section lies elsewhere. */
static bool is_file_of(const struct link_map *map, struct hf_elf *elf)
{
    Elf64_Phdr segment;
    for (size_t cursor = 0; hf_elf_segment(elf, &cursor, &segment);)
        if (segment.p_type == PT_DYNAMIC)
            return map->l_addr + segment.p_vaddr == (uintptr_t)map->l_ld;
    return false;
}

static bool has_local_names(struct hf_elf *elf)
{
    Elf64_Shdr section;
    for (size_t cursor = 0; hf_elf_section(elf, &cursor, &section, NULL);)
        if (section.sh_type == SHT_SYMTAB)
            return section.sh_info > LOCAL_NAMES; /* index of the first symbol that is not local */
    return false;
}

/*
 * Finds the allocators whose strings an object's file contains. Reads the file, in the routing
 * pass, rather than memory at the object's first mapping: the object may have protected its
 * constants, reading them would make them resident, and a process that has entered a sandbox may no
 * longer open files.
 */
void hf_tracking_search(const struct link_map *map, bool named[HF_ALLOCATOR_COUNT])
{
    struct hf_elf elf;
    const char *found[HF_ALLOCATOR_COUNT] = {NULL};
    const bool program = map->l_name == NULL || map->l_name[0] == '\0';
    memset(named, 0, HF_ALLOCATOR_COUNT * sizeof named[0]);
    if (hf_elf_open(&elf, program ? "/proc/self/exe" : map->l_name) != 0)
        return;
    if (is_file_of(map, &elf) && !has_local_names(&elf) &&
        hf_elf_scan(&elf, found, SCANNED_MOST) == 0)
        for (int i = 0; i < HF_ALLOCATOR_COUNT; i++)
            named[i] = found[i] != NULL;
    hf_elf_close(&elf);
}

/* ---- candidates ---- */

static struct candidate *candidate_of(const struct link_map *map)
{
    for (size_t i = 0, count = candidates_count; i < count; i++)
        if (candidates[i].map == map)
            return &candidates[i];
    return NULL;
}

bool hf_tracking_is_candidate(const struct link_map *map)
{
    const struct candidate *candidate = candidate_of(map);
    return candidate != NULL && candidate->state != PROVISIONAL;
}

unsigned hf_tracking_number(const struct link_map *map)
{
    const struct candidate *candidate = candidate_of(map);
    return candidate != NULL && candidate->state == PROVISIONAL ? candidate->number : 0;
}

static const bool nothing_named[HF_ALLOCATOR_COUNT];

static uint64_t hash_of_name(const struct link_map *map)
{
    uint64_t hash = 0;
    for (const char *at = map->l_name; at != NULL && *at != '\0'; at++)
        hash = hash * 31 + (unsigned char)*at + 1;
    return hash;
}

/* Called with `inserting` held. NULL if the table is full. */
static struct candidate *insert(const struct link_map *map, int state, unsigned number,
                                const bool named[HF_ALLOCATOR_COUNT])
{
    size_t place = 0;
    while (place < candidates_count &&
           (candidates[place].map != NULL || candidates[place].recording != 0))
        place++;
    if (place == CANDIDATES_MAX)
        return NULL;
    struct candidate *candidate = &candidates[place];
    candidate->state = state;
    candidate->number = number;
    candidate->has_pages = false;
    candidate->moved_break = false;
    candidate->base = map->l_addr;
    candidate->dynamic = map->l_ld;
    candidate->name = hash_of_name(map);
    memcpy(candidate->named, named, sizeof candidate->named);
    candidate->map = map;
    if (place == candidates_count)
        candidates_count = place + 1;
    return candidate;
}

/* Adds an object that maps memory before a pass has seen it. If another thread holds `inserting`,
 * or this thread does below a signal handler, the object is left to the pass. */
static struct candidate *insert_provisional(const struct link_map *map)
{
    struct candidate *candidate = NULL;
    if (atomic_exchange(&inserting, true))
        return NULL;
    candidate = candidate_of(map);
    unsigned number = candidate == NULL ? hf_foreign_reserve() : 0;
    if (number != 0) {
        candidate = insert(map, PROVISIONAL, number, nothing_named);
        if (candidate == NULL)
            hf_foreign_give_back(number);
    }
    atomic_store(&inserting, false);
    return candidate;
}

/* Gives back a number under which no foreign allocator was published. If a call may be about to
 * record under it, that call gives it back when it ends: it counted itself in `recording` before it
 * read the state, which has changed since. */
static void give_back(struct candidate *candidate)
{
    unsigned number = candidate->recording == 0 ? atomic_exchange(&candidate->number, 0) : 0;
    if (number == 0)
        return;
    if (candidate->has_pages)
        hf_foreign_pages_forget(number);
    hf_foreign_give_back(number);
}

static int decide(struct candidate *candidate);

void hf_tracking_candidate(const struct link_map *map, unsigned number,
                           const bool known[HF_ALLOCATOR_COUNT])
{
    bool named[HF_ALLOCATOR_COUNT] = {false};
    if (number == 0)
        hf_tracking_search(map, named);
    for (int i = 0; i < HF_ALLOCATOR_COUNT; i++)
        named[i] = named[i] && !known[i];
    while (atomic_exchange(&inserting, true))
        sched_yield();
    struct candidate *candidate = candidate_of(map);
    if (candidate == NULL)
        (void)insert(map, number != 0 ? (int)number : UNDECIDED, 0, named);
    atomic_store(&inserting, false);
    if (candidate == NULL || candidate->state != PROVISIONAL)
        return;
    memcpy(candidate->named, named, sizeof candidate->named);
    candidate->state = number != 0 ? (int)number : UNDECIDED;
    if (number == 0 && candidate->has_pages)
        (void)decide(candidate);
    if (candidate->state == NOTHING || (number != 0 && number != candidate->number))
        give_back(candidate);
}

void hf_tracking_loading(bool begins)
{
    if (!hf_options.guess)
        return;
    if (begins)
        atomic_fetch_add(&loading, 1);
    else
        atomic_fetch_sub(&loading, 1);
}

void hf_tracking_settle(void)
{
    for (size_t i = 0; i < candidates_count; i++) {
        struct candidate *candidate = &candidates[i];
        if (candidate->map == NULL || candidate->state != PROVISIONAL)
            continue;
        candidate->state = NOTHING;
        if (candidate->moved_break)
            hf_tracking_break_is_shared();
        give_back(candidate);
        if (candidate->number == 0)
            candidate->map = NULL;
    }
}

static bool is_loaded(const struct candidate *candidate)
{
    const struct link_map *first[HF_NAMESPACES_MAX];
    size_t count = hf_dynlink_namespaces(first);
    for (size_t i = 0; i < count; i++)
        for (const struct link_map *map = first[i]; map != NULL; map = map->l_next)
            if (map == candidate->map)
                return map->l_addr == candidate->base && map->l_ld == candidate->dynamic &&
                       hash_of_name(map) == candidate->name;
    return false;
}

/* Memory mapped by an unloaded object may still be mapped, but its owner is no longer known.
 * Objects whose functions are called are pinned and never get here. */
void hf_tracking_forget(void)
{
    for (size_t i = 0; i < candidates_count; i++) {
        struct candidate *candidate = &candidates[i];
        if (candidate->map == NULL || is_loaded(candidate))
            continue;
        candidate->map = NULL;
        if (candidate->state > 0) {
            hf_foreign_pages_forget((unsigned)candidate->state);
            hf_foreign_give_back((unsigned)candidate->state);
        } else {
            candidate->state = NOTHING;
            give_back(candidate);
        }
    }
}

/* ---- deciding about stripped objects ---- */

/* Decides which allocator a candidate contains, unless another call is deciding: on another thread,
 * or on this one below a signal handler. The caller has counted itself in `recording`, or the
 * object is not in use yet. */
static int decide(struct candidate *candidate)
{
    int state = candidate->state;
    if (state != UNDECIDED)
        return state;
    /* Reserve the number before the state changes: calls that see BEING_DECIDED record under it. */
    unsigned number = candidate->number, none = 0;
    if (number == 0) {
        number = hf_foreign_reserve();
        if (number != 0 && !atomic_compare_exchange_strong(&candidate->number, &none, number)) {
            hf_foreign_give_back(number);
            number = none;
        }
    }
    if (!atomic_compare_exchange_strong(&candidate->state, &state, BEING_DECIDED))
        return state;
    bool found = number != 0 && hf_silent_publish(number, candidate->map, candidate->named);
    candidate->state = found ? (int)number : NOTHING;
    if (found)
        hf_asking_begin();
    return candidate->state;
}

/* Returns the candidate that made a call, or NULL if its mappings are of no interest. */
static struct candidate *candidate_calling(const void *caller)
{
    if (candidates_count == 0 && loading == 0)
        return NULL;
    const struct link_map *map = hf_dynlink_find_fast(caller);
    struct candidate *candidate = map != NULL ? candidate_of(map) : NULL;
    if (candidate == NULL && map != NULL && loading != 0)
        candidate = insert_provisional(map);
    return candidate;
}

/* Starts recording for a candidate. Result: the number to record under, or 0. */
static unsigned begin_recording(struct candidate *candidate, const void *caller)
{
    atomic_fetch_add(&candidate->recording, 1);
    /* The entry belongs to another object by now: `recording` was 0 when it was reused. */
    if (candidate->map != hf_dynlink_find_fast(caller))
        return 0;
    int state = decide(candidate);
    if (state > 0)
        return (unsigned)state;
    if (state == NOTHING || candidate->number == 0)
        return 0;
    candidate->has_pages = true;
    return candidate->number;
}

static void end_recording(struct candidate *candidate)
{
    if (atomic_fetch_sub(&candidate->recording, 1) != 1)
        return;
    /* The last call that recorded under a number that is not the object's gives it back. */
    const int state = candidate->state;
    if (state == NOTHING || (state > 0 && (unsigned)state != candidate->number))
        give_back(candidate);
}

/* ---- called by stubs ---- */

/* Rounds a size up to whole pages, as the kernel does for mappings. */
static size_t whole_pages(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & -page;
}

void *hf_tracking_mapped(void *at, size_t size, int flags, const void *caller)
{
    if (at == MAP_FAILED)
        return at;
    int saved_errno = errno;
    bool plain = (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_TYPE) == MAP_PRIVATE;
    struct candidate *candidate = plain ? candidate_calling(caller) : NULL;
    unsigned number = candidate != NULL ? begin_recording(candidate, caller) : 0;
    size = whole_pages(size);
    if (number != 0 || hf_foreign_pages_any(at, size))
        hf_foreign_pages_set(at, size, number);
    if (candidate != NULL)
        end_recording(candidate);
    errno = saved_errno;
    return at;
}

bool hf_tracking_has(const void *address, size_t size)
{
    return hf_foreign_pages_any(address, size);
}

unsigned hf_tracking_unmapping(void *address, size_t size)
{
    const uintptr_t start = (uintptr_t)address, limit = (uintptr_t)1 << HF_USER_BITS;
    if ((start & (HF_FOREIGN_PAGES_PAGE - 1)) != 0 || start >= limit || size > limit - start ||
        !hf_foreign_pages_any(address, size))
        return HF_FOREIGN_PAGES_UNKNOWN;
    size = whole_pages(size);
    unsigned number = hf_foreign_pages_id(address);
    /* If unmapping fails, only a range with a single owner is restored; otherwise it stays
     * unknown. */
    bool one = hf_foreign_pages_id((const char *)address + size - 1) == number;
    hf_foreign_pages_set(address, size, HF_FOREIGN_PAGES_UNKNOWN);
    return one ? number : HF_FOREIGN_PAGES_UNKNOWN;
}

long hf_tracking_unmap_failed(void *address, size_t size, unsigned number, long result)
{
    if (number != HF_FOREIGN_PAGES_UNKNOWN)
        hf_foreign_pages_set(address, whole_pages(size), number);
    return result;
}

struct hf_tracking_move hf_tracking_moving(void *address, size_t size, size_t new_size, int flags)
{
    struct hf_tracking_move move = {address, whole_pages(size), whole_pages(new_size),
                                    hf_foreign_pages_id(address), (flags & MREMAP_MAYMOVE) != 0};
    if (move.number == HF_FOREIGN_PAGES_UNKNOWN)
        return move;
    /* Memory that stays in place has live blocks, which may be freed meanwhile. */
    if (move.may_move)
        hf_foreign_pages_set(move.from, move.size, HF_FOREIGN_PAGES_UNKNOWN);
    else if (move.new_size < move.size)
        hf_foreign_pages_set(move.from + move.new_size, move.size - move.new_size,
                             HF_FOREIGN_PAGES_UNKNOWN);
    return move;
}

void *hf_tracking_moved(const struct hf_tracking_move *move, void *at)
{
    if (move->number == HF_FOREIGN_PAGES_UNKNOWN)
        return at;
    int saved_errno = errno;
    if (at != MAP_FAILED)
        hf_foreign_pages_set(at, move->new_size, move->number);
    else
        hf_foreign_pages_set(move->from, move->size, move->number);
    errno = saved_errno;
    return at;
}

void hf_tracking_break_is_shared(void)
{
    hf_libc_heap_break_is_shared = true;
}

void *hf_tracking_break(void *before, intptr_t increment, const void *caller)
{
    if (before == (void *)-1 || increment == 0)
        return before;
    int saved_errno = errno;
    char *at = before;
    struct candidate *candidate = candidate_calling(caller);
    unsigned number = candidate != NULL ? begin_recording(candidate, caller) : 0;
    if (number == 0)
        hf_tracking_break_is_shared();
    else if (candidate->state == PROVISIONAL)
        candidate->moved_break = true;
    if (increment < 0)
        hf_foreign_pages_set(at + increment, (size_t)-increment, HF_FOREIGN_PAGES_UNKNOWN);
    else
        hf_foreign_pages_set(at, (size_t)increment, number);
    if (candidate != NULL)
        end_recording(candidate);
    errno = saved_errno;
    return before;
}
