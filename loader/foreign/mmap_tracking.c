/*
 * Owns the table of candidates: filled under the loader's lock, read and decided without one. See
 * mmap_tracking.h.
 */
#include "loader/foreign/mmap_tracking.h"

#include "alloc/owner/foreign.h"
#include "alloc/owner/libc_heap.h"
#include "alloc/owner/pagemap.h"
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

/* `state`: a foreign allocator's number, or one of these. */
enum {
    UNDECIDED = -1,
    BEING_DECIDED = -2,
    NOTHING = -3,
    PROVISIONAL = -4 /* mapped memory before a pass looked at it: in its constructors */
};

/* `map` is written last, and cleared first. */
static struct candidate {
    _Atomic(const struct link_map *) map;
    atomic_int state;
    atomic_uint number;      /* what pages are recorded under until it is decided; 0: not at all */
    atomic_uint recording;   /* calls that may be about to record under `number` */
    atomic_bool used;        /* pages were */
    atomic_bool moved_break; /* while it was provisional */
    bool named[HF_ALLOCATOR_COUNT]; /* allocators whose strings its file holds */
    uintptr_t base;
    const void *dynamic;
} candidates[CANDIDATES_MAX];
static atomic_size_t candidates_count; /* one past the last that was ever used */

static atomic_flag inserting = ATOMIC_FLAG_INIT;

/* The threads that were inserting and deciding are not there: others do it. Whoever decides again
 * publishes the same again. */
static void in_child(void)
{
    atomic_flag_clear(&inserting);
    for (size_t i = 0; i < candidates_count; i++) {
        int state = BEING_DECIDED;
        (void)atomic_compare_exchange_strong(&candidates[i].state, &state, UNDECIDED);
    }
}

void hf_tracking_start(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static atomic_uint loading; /* calls of dlopen() under way */

/* ---- what a stripped object's strings say ---- */

/* Of an object's constants so much is read at most: some hold hundreds of megabytes of tables. */
#define SCANNED_MOST (UINT64_C(16) << 20)

/* With more local names than this in its table of symbols, an object is not stripped: allocators
 * were looked for among them, and strings say nothing more. */
#define LOCAL_NAMES 1000

/* The path may lead to another file by now: one whose dynamic section lies elsewhere. */
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
            return section.sh_info > LOCAL_NAMES; /* the first name that is not local */
    return false;
}

/*
 * Which allocators' strings an object's file holds. Done in the routing pass, and from the file,
 * rather than when the object first maps memory, and from there: it may have locked its constants
 * away, they need not become resident for this, and a process that has put itself into a sandbox
 * may not open files any more.
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

/* With `inserting` held. NULL where the table is full. */
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
    candidate->used = false;
    candidate->moved_break = false;
    candidate->base = map->l_addr;
    candidate->dynamic = map->l_ld;
    memcpy(candidate->named, named, sizeof candidate->named);
    candidate->map = map;
    if (place == candidates_count)
        candidates_count = place + 1;
    return candidate;
}

/* An object that no pass has seen maps memory. Where another thread inserts, or the same one below
 * this signal handler, the object is left for the pass. */
static struct candidate *insert_provisional(const struct link_map *map)
{
    struct candidate *candidate = NULL;
    if (atomic_flag_test_and_set(&inserting))
        return NULL;
    candidate = candidate_of(map);
    unsigned number = candidate == NULL ? hf_foreign_reserve() : 0;
    if (number != 0) {
        candidate = insert(map, PROVISIONAL, number, nothing_named);
        if (candidate == NULL)
            hf_foreign_give_back(number);
    }
    atomic_flag_clear(&inserting);
    return candidate;
}

/* Gives a number back under which no foreign allocator was published. A call that is about to
 * record under it keeps it for ever: it counted itself before it looked at the state, which has
 * changed since.
 */
static void give_back(struct candidate *candidate)
{
    unsigned number = candidate->recording == 0 ? atomic_exchange(&candidate->number, 0) : 0;
    if (number == 0)
        return;
    if (candidate->used)
        hf_pagemap_forget(number);
    hf_foreign_give_back(number);
}

static int decide(struct candidate *candidate);

void hf_tracking_candidate(const struct link_map *map, unsigned number)
{
    bool named[HF_ALLOCATOR_COUNT] = {false};
    if (number == 0)
        hf_tracking_search(map, named);
    while (atomic_flag_test_and_set(&inserting))
        sched_yield();
    struct candidate *candidate = candidate_of(map);
    if (candidate == NULL)
        (void)insert(map, number != 0 ? (int)number : UNDECIDED, 0, named);
    atomic_flag_clear(&inserting);
    if (candidate == NULL || candidate->state != PROVISIONAL)
        return;
    memcpy(candidate->named, named, sizeof candidate->named);
    candidate->state = number != 0 ? (int)number : UNDECIDED;
    if (number == 0 && candidate->used)
        (void)decide(candidate);
    if (candidate->state == NOTHING || (number != 0 && number != candidate->number))
        give_back(candidate);
}

void hf_tracking_loading(bool begins)
{
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
                return map->l_addr == candidate->base && map->l_ld == candidate->dynamic;
    return false;
}

/* What an unloaded object mapped may be mapped still, but nobody can say whose it is now. Objects
 * whose functions are called are pinned, and never come here. */
void hf_tracking_forget(void)
{
    for (size_t i = 0; i < candidates_count; i++) {
        struct candidate *candidate = &candidates[i];
        if (candidate->map == NULL || is_loaded(candidate))
            continue;
        candidate->map = NULL;
        if (candidate->state > 0) {
            hf_pagemap_forget((unsigned)candidate->state);
            hf_foreign_give_back((unsigned)candidate->state);
        } else {
            candidate->state = NOTHING;
            give_back(candidate);
        }
    }
}

/* ---- deciding about a stripped object ---- */

/* Decides, unless another call does just now: another thread's, or one below this signal handler.
 * The caller has counted itself in `recording`, or the object is not in use yet. */
static int decide(struct candidate *candidate)
{
    int state = candidate->state;
    if (state != UNDECIDED)
        return state;
    /* The number is there before anybody can see that it is wanted. */
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

/* The object that made a call, if its mappings are of interest. */
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

/* Begins to record for a candidate. Result: the number to record under; 0: nothing. */
static unsigned begin_recording(struct candidate *candidate, const void *caller)
{
    atomic_fetch_add(&candidate->recording, 1);
    /* Another object's by now: nobody had counted in it. */
    if (candidate->map != hf_dynlink_find_fast(caller))
        return 0;
    int state = decide(candidate);
    if (state > 0)
        return (unsigned)state;
    if (state == NOTHING || candidate->number == 0)
        return 0;
    candidate->used = true;
    return candidate->number;
}

static void end_recording(struct candidate *candidate)
{
    if (atomic_fetch_sub(&candidate->recording, 1) != 1)
        return;
    /* The last to go of those who recorded under a number that is not the object's. */
    const int state = candidate->state;
    if (state == NOTHING || (state > 0 && (unsigned)state != candidate->number))
        give_back(candidate);
}

/* ---- what the stubs tell ---- */

/* As the kernel rounds the size of a mapping. */
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
    if (number != 0 || hf_pagemap_any(at, size))
        hf_pagemap_set(at, size, number);
    if (candidate != NULL)
        end_recording(candidate);
    errno = saved_errno;
    return at;
}

bool hf_tracking_has(const void *address, size_t size)
{
    return hf_pagemap_any(address, size);
}

unsigned hf_tracking_unmapping(void *address, size_t size)
{
    const uintptr_t start = (uintptr_t)address, limit = (uintptr_t)1 << HF_PAGEMAP_BITS;
    if ((start & (HF_PAGEMAP_PAGE - 1)) != 0 || start >= limit || size > limit - start ||
        !hf_pagemap_any(address, size))
        return HF_PAGEMAP_UNKNOWN;
    size = whole_pages(size);
    unsigned number = hf_pagemap_id(address);
    /* Put back after a failure only what was one foreign allocator's; the rest is unknown then. */
    bool one = hf_pagemap_id((const char *)address + size - 1) == number;
    hf_pagemap_set(address, size, HF_PAGEMAP_UNKNOWN);
    return one ? number : HF_PAGEMAP_UNKNOWN;
}

long hf_tracking_unmap_failed(void *address, size_t size, unsigned number, long result)
{
    if (number != HF_PAGEMAP_UNKNOWN)
        hf_pagemap_set(address, whole_pages(size), number);
    return result;
}

struct hf_tracking_move hf_tracking_moving(void *address, size_t size, size_t new_size, int flags)
{
    struct hf_tracking_move move = {address, whole_pages(size), whole_pages(new_size),
                                    hf_pagemap_id(address), (flags & MREMAP_MAYMOVE) != 0};
    if (move.number == HF_PAGEMAP_UNKNOWN)
        return move;
    /* What stays where it is has live blocks that may be freed meanwhile. */
    if (move.may_move)
        hf_pagemap_set(move.from, move.size, HF_PAGEMAP_UNKNOWN);
    else if (move.new_size < move.size)
        hf_pagemap_set(move.from + move.new_size, move.size - move.new_size, HF_PAGEMAP_UNKNOWN);
    return move;
}

void *hf_tracking_moved(const struct hf_tracking_move *move, void *at)
{
    if (move->number == HF_PAGEMAP_UNKNOWN)
        return at;
    int saved_errno = errno;
    if (at != MAP_FAILED)
        hf_pagemap_set(at, move->new_size, move->number);
    else
        hf_pagemap_set(move->from, move->size, move->number);
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
        hf_pagemap_set(at + increment, (size_t)-increment, HF_PAGEMAP_UNKNOWN);
    else
        hf_pagemap_set(at, (size_t)increment, number);
    if (candidate != NULL)
        end_recording(candidate);
    errno = saved_errno;
    return before;
}
