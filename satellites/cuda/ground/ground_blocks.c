/*
 * Areas; grounds: opening them, their small blocks, what threads keep of these, and finding blocks.
 * See ground.h. Owns the list of grounds, which are never closed; a lock of its own guards it.
 */
#include "satellites/cuda/ground/ground.h"

#include "alloc/base/fork_lock.h"

#include <string.h>
#include <sys/mman.h>

enum {
    STACK_MOST = 64,
    STACK_LEAST = 8,
    STACK_BYTES = 64 << 10,
    BLOCKS_LEAST = 8, /* in a span */
    WASTE_PART = 16   /* of a span is not in blocks, at most */
};

static uint8_t classes[HF_GROUND_CACHED / HF_GROUND_ALIGNMENT];
static uint32_t sizes[HF_GROUND_CLASSES];

static pthread_mutex_t HF_FORK_LOCK opening = PTHREAD_MUTEX_INITIALIZER;
static struct hf_ground *grounds; /* atomic */
static unsigned grounds_count;
static bool is_child;

static struct hf_ground_freed nothing; /* the end of an empty stack */

/* ---- areas ---- */

static size_t table_size(size_t size)
{
    return size >> HF_GROUND_LG_UNIT << HF_GROUND_LG_ENTRY;
}

bool hf_ground_area_open(struct hf_ground_area *area, uintptr_t base, size_t size)
{
    void *at = mmap(NULL, table_size(size), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    (void)madvise(at, table_size(size), MADV_DONTDUMP);
    area->entries = (void *)((uintptr_t)at - (base >> HF_GROUND_LG_UNIT << HF_GROUND_LG_ENTRY));
    area->base = base;
    __atomic_store_n(&area->size, size, __ATOMIC_RELEASE);
    return true;
}

void hf_ground_area_close(struct hf_ground_area *area)
{
    (void)munmap(hf_ground_entry_in(area, (void *)area->base), table_size(area->size));
    area->size = 0;
}

/* ---- opening ---- */

static void write_tables(void)
{
    uint32_t size = 0, step = HF_GROUND_ALIGNMENT;
    for (unsigned class = 1, i = 0; class < HF_GROUND_CLASSES; class ++) {
        if (size >= HF_GROUND_EXACT && (size & (size - 1)) == 0)
            step = size / 8;
        size += step;
        sizes[class] = size;
        for (; i < size / HF_GROUND_ALIGNMENT; i++)
            classes[i] = (uint8_t) class;
    }
}

struct hf_ground *
hf_ground_open(const struct hf_ground_area *area, void *(*grow)(void *space, size_t size),
               size_t (*lacks)(void *space, const void *at, size_t size, size_t most), void *space)
{
    pthread_mutex_lock(&opening);
    struct hf_ground *ground =
        grounds_count < HF_GROUNDS_MOST ? hf_ground_metadata(sizeof *ground) : NULL;
    if (ground != NULL) {
        ground->area = area;
        ground->grow = grow;
        ground->lacks = lacks;
        ground->space = space;
        ground->number = grounds_count++;
        ground->next = grounds;
        pthread_mutex_init(&ground->lock, NULL);
        hf_ground_ranges_start(ground);
        __atomic_store_n(&grounds, ground, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&opening);
    return ground;
}

unsigned hf_ground_number(const struct hf_ground *ground)
{
    return ground->number;
}

static unsigned class_of(size_t size)
{
    return classes[(size - 1) / HF_GROUND_ALIGNMENT];
}

/* ---- spans; with the ground's lock ---- */

static uint8_t *states_of(struct hf_ground_span *span)
{
    return (uint8_t *)span + HF_GROUND_SPAN;
}

static struct hf_ground_span *span_of(const struct hf_ground_entry *entry)
{
    return (struct hf_ground_span *)(void *)(entry->state - HF_GROUND_SPAN);
}

/* Where a small block lies. False if none can start at the address, which a span holds. */
struct place {
    struct hf_ground_span *span;
    uintptr_t start;
    uint8_t *state;
};
static bool find_place(const struct hf_ground_entry *entry, const void *at, struct place *place)
{
    struct hf_ground_span *span = span_of(entry);
    const size_t size = sizes[span->class], index = ((uintptr_t)at - span->start) / size;
    *place = (struct place){span, span->start + index * size, states_of(span) + index};
    return place->start == (uintptr_t)at;
}

/* Whole units with many blocks, of which little is left over. */
static size_t span_bytes(unsigned class)
{
    const size_t size = sizes[class];
    size_t bytes = (size * BLOCKS_LEAST + HF_GROUND_UNIT - 1) & -HF_GROUND_UNIT;
    while (bytes % size * WASTE_PART > bytes)
        bytes += HF_GROUND_UNIT;
    return bytes;
}

static void link_in(struct hf_ground_span *span)
{
    struct hf_ground_span **list = &span->ground->spans[span->class];
    span->previous = NULL;
    span->next = *list;
    if (span->next != NULL)
        span->next->previous = span;
    *list = span;
}

static void link_out(struct hf_ground_span *span)
{
    struct hf_ground_span **list = &span->ground->spans[span->class];
    *(span->previous != NULL ? &span->previous->next : list) = span->next;
    if (span->next != NULL)
        span->next->previous = span->previous;
}

static void give_record(struct hf_ground *ground, struct hf_ground_span *span)
{
    span->next = ground->idle_spans[span->class];
    ground->idle_spans[span->class] = span;
}

static struct hf_ground_span *take_record(struct hf_ground *ground, unsigned class)
{
    struct hf_ground_span *span = ground->idle_spans[class];
    if (span != NULL) {
        ground->idle_spans[class] = span->next;
        return span;
    }
    /* What is left over behind the last block has an index, too. */
    const size_t blocks = span_bytes(class) / sizes[class];
    span = hf_ground_metadata(HF_GROUND_SPAN + blocks + 1);
    if (span != NULL) {
        span->ground = ground;
        span->class = (uint8_t) class;
        span->blocks = (uint16_t)blocks;
        states_of(span)[blocks] = HF_NONE;
    }
    return span;
}

static struct hf_ground_span *make_span(struct hf_ground *ground, unsigned class)
{
    struct hf_ground_span *span = take_record(ground, class);
    if (span == NULL)
        return NULL;
    const size_t bytes = span_bytes(class);
    const bool is_fast = __atomic_load_n(&ground->is_fast, __ATOMIC_RELAXED);
    span->start = hf_ground_range_take(ground, bytes, HF_GROUND_UNIT, true);
    if (span->start == 0) {
        give_record(ground, span);
        return NULL;
    }
    span->free = span->blocks;
    memset(states_of(span), HF_FREE, span->blocks);
    struct hf_ground_entry *entry = hf_ground_entry_in(ground->area, (void *)span->start);
    for (size_t i = 0; i < bytes / HF_GROUND_UNIT; i++) {
        entry[i].first = (uint32_t)span->start;
        entry[i].reciprocal = UINT64_MAX / sizes[class] + 1;
        __atomic_store_n(&entry[i].state, states_of(span), __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].ground, (uint16_t)(ground->number + 1), __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].class, is_fast ? (uint8_t) class : 0, __ATOMIC_RELEASE);
    }
    link_in(span);
    return span;
}

static void end_span(struct hf_ground_span *span)
{
    const size_t bytes = span_bytes(span->class);
    struct hf_ground_entry *entry = hf_ground_entry_in(span->ground->area, (void *)span->start);
    for (size_t i = 0; i < bytes / HF_GROUND_UNIT; i++) {
        __atomic_store_n(&entry[i].class, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].ground, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].large, NULL, __ATOMIC_RELEASE);
    }
    link_out(span);
    hf_ground_range_give(span->ground, span->start, bytes);
    give_record(span->ground, span);
}

/* Takes up to so many blocks, and returns how many; `at` gets them. */
static unsigned take_free(struct hf_ground *ground, unsigned class, struct hf_ground_freed *at,
                          unsigned wanted)
{
    unsigned count = 0;
    while (count < wanted) {
        struct hf_ground_span *span = ground->spans[class];
        if (span == NULL && (count > 0 || (span = make_span(ground, class)) == NULL))
            break;
        uint8_t *const states = states_of(span), *const end = states + span->blocks;
        for (uint8_t *state = states;
             count < wanted && (state = memchr(state, HF_FREE, (size_t)(end - state))) != NULL;
             state++) {
            __atomic_store_n(state, HF_STACKED, __ATOMIC_RELAXED);
            at[count++] = (struct hf_ground_freed){
                .block = (char *)(span->start + (size_t)(state - states) * sizes[class]),
                .state = state,
            };
            span->free--;
        }
        if (span->free == 0)
            link_out(span);
    }
    ground->small += (uint64_t)count * sizes[class];
    return count;
}

/* One wholly free span of a class may wait for the next block. */
static void give_free(struct hf_ground *ground, const struct hf_ground_freed *freed)
{
    struct hf_ground_span *span = span_of(hf_ground_entry_in(ground->area, freed->block));
    __atomic_store_n(freed->state, HF_FREE, __ATOMIC_RELAXED);
    ground->small -= sizes[span->class];
    if (span->free++ == 0)
        link_in(span);
    if (span->free == span->blocks && (span->next != NULL || span->previous != NULL))
        end_span(span);
}

/* ---- what threads keep ---- */

/* Blocks that a stack holds. */
static unsigned room(unsigned class)
{
    const unsigned fitting = STACK_BYTES / sizes[class];
    return fitting > STACK_MOST ? STACK_MOST : fitting < STACK_LEAST ? STACK_LEAST : fitting;
}

static struct hf_ground_freed *bottom(const struct hf_ground_stacks *stacks, unsigned class)
{
    return stacks->lasts[class] - room(class);
}

static struct hf_ground_stacks *make_stacks(void)
{
    size_t places = 0;
    for (unsigned class = 1; class < HF_GROUND_CLASSES; class ++)
        places += room(class) + 1;
    struct hf_ground_stacks *stacks =
        hf_ground_metadata(sizeof *stacks + places * sizeof(struct hf_ground_freed));
    if (stacks == NULL)
        return NULL;
    memcpy(stacks->classes, classes, sizeof classes);
    struct hf_ground_freed *stack = (struct hf_ground_freed *)(void *)(stacks + 1);
    stacks->tops[0] = stacks->lasts[0] = &nothing;
    for (unsigned class = 1; class < HF_GROUND_CLASSES; class ++) {
        stacks->tops[class] = stack;
        stacks->lasts[class] = stack + room(class);
        stack += room(class) + 1;
    }
    return stacks;
}

/* Gives back all but `keep` blocks of a class; with the ground's lock. */
static void put_back(struct hf_ground_stacks *stacks, unsigned class, unsigned keep)
{
    struct hf_ground_freed *top = stacks->tops[class], *end = bottom(stacks, class) + keep;
    for (; top > end; top--)
        give_free(stacks->ground, top);
    stacks->tops[class] = top;
}

static void put_back_all(struct hf_ground_stacks *stacks)
{
    for (unsigned class = 1; class < HF_GROUND_CLASSES; class ++)
        put_back(stacks, class, 0);
}

/* Gives all back, and lets the stacks be another ground's. */
static void leave(struct hf_ground_thread *thread, struct hf_ground_stacks *stacks)
{
    if (stacks == NULL || stacks->ground == NULL)
        return;
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (thread->spaces[i] == stacks)
            thread->spaces[i] = &hf_ground_no_stacks;
    pthread_mutex_lock(&stacks->ground->lock);
    put_back_all(stacks);
    pthread_mutex_unlock(&stacks->ground->lock);
    stacks->ground = NULL;
}

static void leave_all(struct hf_ground_thread *thread)
{
    for (size_t i = 0; i < HF_GROUNDS_KEPT && !is_child; i++)
        leave(thread, thread->grounds[i]);
}

/* The calling thread's stacks of a ground, or NULL. */
static struct hf_ground_stacks *stacks_of(const struct hf_ground *ground)
{
    struct hf_ground_stacks *stacks = hf_ground_here->grounds[ground->number % HF_GROUNDS_KEPT];
    return HF_LIKELY(stacks != NULL) && stacks->ground == ground ? stacks : NULL;
}

/* The same; makes them if necessary. NULL if the thread can have none. */
static struct hf_ground_stacks *open_stacks(struct hf_ground *ground)
{
    struct hf_ground_thread *thread = hf_ground_thread();
    if (thread == NULL)
        return NULL;
    struct hf_ground_stacks **stacks = &thread->grounds[ground->number % HF_GROUNDS_KEPT];
    if (*stacks == NULL && (*stacks = make_stacks()) == NULL)
        return NULL;
    if ((*stacks)->ground != ground) {
        leave(thread, *stacks);
        (*stacks)->ground = ground;
    }
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (__atomic_load_n(&hf_fast_spaces.at[i].ground, __ATOMIC_ACQUIRE) == ground) {
            __atomic_store_n(&ground->is_fast, true, __ATOMIC_RELAXED);
            thread->spaces[i] = *stacks;
        }
    return *stacks;
}

/* ---- small blocks ---- */

static char *pop(struct hf_ground_stacks *stacks, unsigned class)
{
    struct hf_ground_freed *top = stacks->tops[class];
    if (top->block != NULL) {
        stacks->tops[class] = top - 1;
        __atomic_store_n(top->state, HF_LIVE, __ATOMIC_RELAXED);
    }
    return top->block;
}

void *hf_ground_take(struct hf_ground *ground, size_t size)
{
    const unsigned class = class_of(size);
    struct hf_ground_stacks *stacks = stacks_of(ground);
    char *block = HF_LIKELY(stacks != NULL) ? pop(stacks, class) : NULL;
    if (HF_LIKELY(block != NULL))
        return block;
    stacks = open_stacks(ground);
    pthread_mutex_lock(&ground->lock);
    if (HF_LIKELY(stacks != NULL)) {
        stacks->tops[class] +=
            take_free(ground, class, stacks->tops[class] + 1, (room(class) + 1) / 2);
        block = pop(stacks, class);
    } else {
        struct hf_ground_freed one;
        if (take_free(ground, class, &one, 1) != 0) {
            __atomic_store_n(one.state, HF_LIVE, __ATOMIC_RELAXED);
            block = one.block;
        }
    }
    pthread_mutex_unlock(&ground->lock);
    return block;
}

static bool push(struct hf_ground_stacks *stacks, unsigned class, struct hf_ground_freed freed)
{
    struct hf_ground_freed *top = stacks->tops[class];
    if (top == stacks->lasts[class])
        return false;
    __atomic_store_n(freed.state, HF_STACKED, __ATOMIC_RELAXED);
    top[1] = freed;
    stacks->tops[class] = top + 1;
    return true;
}

void hf_ground_give(struct hf_ground *ground, void *at)
{
    struct place place;
    (void)find_place(hf_ground_entry_in(ground->area, at), at, &place);
    const unsigned class = place.span->class;
    const struct hf_ground_freed freed = {.block = at, .state = place.state};
    struct hf_ground_stacks *stacks = stacks_of(ground);
    if (HF_LIKELY(stacks != NULL) && HF_LIKELY(push(stacks, class, freed)))
        return;
    stacks = open_stacks(ground);
    pthread_mutex_lock(&ground->lock);
    if (stacks != NULL)
        put_back(stacks, class, room(class) / 2);
    if (stacks == NULL || !push(stacks, class, freed))
        give_free(ground, &freed);
    pthread_mutex_unlock(&ground->lock);
}

bool hf_ground_each_cached(const struct hf_ground *ground, size_t size,
                           bool (*visit)(void *context, void *at, size_t size), void *context)
{
    const unsigned class = class_of(size);
    const struct hf_ground_stacks *stacks = stacks_of(ground);
    if (stacks == NULL)
        return true;
    for (const struct hf_ground_freed *top = stacks->tops[class]; top->block != NULL; top--)
        if (!visit(context, top->block, sizes[class]))
            return false;
    return true;
}

void hf_ground_empty(struct hf_ground *ground)
{
    struct hf_ground_stacks *stacks = stacks_of(ground);
    pthread_mutex_lock(&ground->lock);
    if (stacks != NULL)
        put_back_all(stacks);
    for (unsigned class = 1; class < HF_GROUND_CLASSES; class ++)
        for (struct hf_ground_span *span = ground->spans[class], *next; span != NULL; span = next) {
            next = span->next;
            if (span->free == span->blocks)
                end_span(span);
        }
    hf_ground_freed_empty(ground);
    pthread_mutex_unlock(&ground->lock);
}

uint64_t hf_ground_small(struct hf_ground *ground)
{
    pthread_mutex_lock(&ground->lock);
    const uint64_t bytes = ground->small;
    pthread_mutex_unlock(&ground->lock);
    return bytes;
}

/* ---- looking ---- */

static struct hf_ground_block describe(const void *at, uintptr_t start, enum hf_ground_state state)
{
    if (state == HF_LIVE)
        return (struct hf_ground_block){.at = (void *)start};
    return (struct hf_ground_block){.was_freed = (uintptr_t)at == start &&
                                                 (state == HF_STACKED || state == HF_CLAIMED)};
}

static struct hf_ground_block find_small(const struct hf_ground_entry *entry, const void *at)
{
    struct place place;
    (void)find_place(entry, at, &place);
    struct hf_ground_block found = describe(
        at, place.start, (enum hf_ground_state)__atomic_load_n(place.state, __ATOMIC_RELAXED));
    found.size = sizes[place.span->class];
    found.small = true;
    found.number = place.span->ground->number;
    return found;
}

static bool find_large(const struct hf_ground_large *large, const void *at,
                       struct hf_ground_block *found)
{
    const uintptr_t word = __atomic_load_n(&large->word, __ATOMIC_ACQUIRE);
    const uintptr_t start = word & ~HF_GROUND_STATE;
    if ((uintptr_t)at < start)
        return false; /* it starts in the same unit */
    if ((uintptr_t)at - start < large->size)
        *found = describe(at, start, (enum hf_ground_state)(word & HF_GROUND_STATE));
    found->size = large->size;
    found->number = large->ground->number;
    return true;
}

/* A large block's first unit alone tells of it, so the nearest entry before an address decides. No
 * block goes beyond the range that the space gave. */
struct hf_ground_block hf_ground_find(const struct hf_ground_area *area, const void *at)
{
    struct hf_ground_block found = {.at = NULL};
    const struct hf_ground_entry *entry = hf_ground_entry_in(area, at);
    if (hf_ground_has_span(entry))
        return find_small(entry, at);
    for (;; entry--) {
        const struct hf_ground_large *large = hf_ground_large_of(entry);
        if ((large != NULL && find_large(large, at, &found)) || hf_ground_has_span(entry) ||
            entry->is_border || entry == hf_ground_entry_in(area, (void *)area->base))
            return found;
    }
}

bool hf_ground_claim(const struct hf_ground_area *area, void *at)
{
    const struct hf_ground_entry *entry = hf_ground_entry_in(area, at);
    if (hf_ground_has_span(entry)) {
        struct place place;
        uint8_t live = HF_LIVE;
        return find_place(entry, at, &place) &&
               __atomic_compare_exchange_n(place.state, &live, HF_CLAIMED, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_RELAXED);
    }
    struct hf_ground_large *large = hf_ground_large_of(entry);
    uintptr_t word = (uintptr_t)at | HF_LIVE;
    return large != NULL &&
           __atomic_compare_exchange_n(&large->word, &word, (uintptr_t)at | HF_CLAIMED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- the process ---- */

void hf_grounds_start(void)
{
    write_tables();
    hf_ground_threads_start(leave_all);
}

void hf_grounds_reset_in_child(void)
{
    is_child = grounds != NULL;
    for (struct hf_ground *ground = grounds; ground != NULL; ground = ground->next)
        pthread_mutex_init(&ground->lock, NULL);
}
