/*
 * Grounds: opening them, their small blocks, what threads keep of these, and finding blocks. See
 * ground.h. Owns the list of grounds, which are never closed; the spans' lock guards it.
 */
#include "alloc/spans/ground.h"

#include "alloc/spans/call.h"
#include "alloc/spans/metadata.h"
#include "alloc/spans/span.h"
#include "alloc/spans/vector.h"

#include <string.h>

enum {
    GROUNDS_MOST = 4096, /* space/streams.c has a table */
    STACK_MOST = 64,
    STACK_LEAST = 8,
    STACK_BYTES = 64 << 10,
    BLOCKS_LEAST = 8, /* in a span */
    WASTE_PART = 16,  /* of a span is not in blocks, at most */
    GROUP = 64        /* states that are looked at together */
};

static uint8_t classes[HF_GROUND_CACHED / HF_GROUND_ALIGNMENT];
static uint32_t sizes[HF_GROUND_CLASSES];

static struct hf_ground *grounds;
static unsigned grounds_count;
static bool is_child;

static struct hf_freed nothing; /* the end of an empty stack */
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

struct hf_ground *hf_ground_open(void *(*grow)(void *space, size_t size),
                                 size_t (*lacks)(void *space, const void *at, size_t size,
                                                 size_t most),
                                 void *space, uintptr_t delta)
{
    struct hf_pass pass;
    if (!hf_ground_enter(&pass))
        return NULL;
    hf_spans_lock();
    struct hf_ground *ground =
        grounds_count < GROUNDS_MOST ? hf_metadata_take(sizeof *ground) : NULL;
    if (ground != NULL) {
        if (grounds_count == 0)
            write_tables();
        ground->grow = grow;
        ground->lacks = lacks;
        ground->space = space;
        ground->delta = delta;
        ground->number = grounds_count++;
        ground->next = grounds;
        grounds = ground;
        pthread_mutex_init(&ground->lock, NULL);
        hf_ground_ranges_start(ground);
    }
    hf_spans_unlock();
    hf_gate_leave(&pass);
    return ground;
}

unsigned hf_ground_arena(const struct hf_ground *ground)
{
    return ground->number;
}

/* The table, as if it were indexed by the addresses of the space. */
void *hf_ground_entries(const struct hf_ground *ground)
{
    const uintptr_t units = (uintptr_t)((intptr_t)ground->delta >> HF_LG_UNIT);
    return (void *)((uintptr_t)hf_entry_table - (units << HF_LG_ENTRY));
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

static struct hf_ground_span *span_of(const struct hf_entry *entry)
{
    return (struct hf_ground_span *)(void *)(entry->state - HF_GROUND_SPAN);
}

/* Where a small block lies. False if none can start at the address, which a span holds. */
struct place {
    struct hf_ground_span *span;
    uintptr_t start;
    uint8_t *state;
};
static bool find_place(const struct hf_entry *entry, const void *at, struct place *place)
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
    size_t bytes = (size * BLOCKS_LEAST + HF_UNIT - 1) & -HF_UNIT;
    while (bytes % size * WASTE_PART > bytes)
        bytes += HF_UNIT;
    return bytes;
}

/* Indices that addresses of a span can have, in whole groups. */
static size_t indices(unsigned class)
{
    return (span_bytes(class) / sizes[class] + GROUP) & -(size_t)GROUP;
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
    hf_spans_lock();
    span = hf_metadata_take(HF_GROUND_SPAN + indices(class));
    hf_spans_unlock();
    if (span != NULL) {
        span->ground = ground;
        span->class = (uint8_t) class;
        span->blocks = (uint16_t)(span_bytes(class) / sizes[class]);
        memset(states_of(span) + span->blocks, HF_NONE, indices(class) - span->blocks);
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
    span->start = hf_ground_range_take(ground, bytes, HF_UNIT, true);
    if (span->start == 0) {
        give_record(ground, span);
        return NULL;
    }
    span->free = span->blocks;
    memset(states_of(span), HF_FREE, span->blocks);
    struct hf_entry *entry = hf_entry_of((void *)span->start);
    for (size_t i = 0; i < bytes / HF_UNIT; i++) {
        entry[i].first = (uint32_t)(span->start + ground->delta);
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
    struct hf_entry *entry = hf_entry_of((void *)span->start);
    for (size_t i = 0; i < bytes / HF_UNIT; i++) {
        __atomic_store_n(&entry[i].class, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].ground, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].ground_large, NULL, __ATOMIC_RELEASE);
    }
    link_out(span);
    hf_ground_range_give(span->ground, span->start, bytes);
    give_record(span->ground, span);
}

/* Takes up to so many blocks, and returns how many; `at` gets them. */
static unsigned take_free(struct hf_ground *ground, unsigned class, struct hf_freed *at,
                          unsigned wanted)
{
    unsigned count = 0;
    while (count < wanted) {
        struct hf_ground_span *span = ground->spans[class];
        if (span == NULL && (count > 0 || (span = make_span(ground, class)) == NULL))
            break;
        uint8_t *states = states_of(span);
        for (size_t group = 0; count < wanted && group < span->blocks; group += GROUP)
            for (uint64_t mask = hf_bytes_equal(states + group, HF_FREE);
                 count < wanted && mask != 0; mask &= mask - 1) {
                const size_t index = group + (size_t)__builtin_ctzll(mask);
                __atomic_store_n(&states[index], HF_STACKED, __ATOMIC_RELAXED);
                at[count++] = (struct hf_freed){
                    .block = (char *)(span->start + index * sizes[class] + ground->delta),
                    .state = &states[index],
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
static void give_free(struct hf_ground *ground, const struct hf_freed *freed)
{
    struct hf_ground_span *span = span_of(hf_entry_of(freed->block - ground->delta));
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

static struct hf_freed *bottom(const struct hf_ground_stacks *stacks, unsigned class)
{
    return stacks->lasts[class] - room(class);
}

static void *take_metadata(size_t size)
{
    hf_spans_lock();
    void *at = hf_metadata_take(size);
    hf_spans_unlock();
    return at;
}

static struct hf_ground_stacks *make_stacks(void)
{
    size_t places = 0;
    for (unsigned class = 1; class < HF_GROUND_CLASSES; class ++)
        places += room(class) + 1;
    struct hf_ground_stacks *stacks =
        take_metadata(sizeof *stacks + places * sizeof(struct hf_freed));
    if (stacks == NULL)
        return NULL;
    memcpy(stacks->classes, classes, sizeof classes);
    struct hf_freed *stack = (struct hf_freed *)(void *)(stacks + 1);
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
    struct hf_freed *top = stacks->tops[class], *end = bottom(stacks, class) + keep;
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
static void leave(struct hf_local *local, struct hf_ground_stacks *stacks)
{
    if (stacks == NULL || stacks->ground == NULL)
        return;
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (local->spaces[i] == stacks)
            local->spaces[i] = &hf_ground_no_stacks;
    pthread_mutex_lock(&stacks->ground->lock);
    put_back_all(stacks);
    pthread_mutex_unlock(&stacks->ground->lock);
    stacks->ground = NULL;
}

static void leave_all(struct hf_local *local)
{
    for (size_t i = 0; i < HF_GROUNDS_KEPT && !is_child; i++)
        leave(local, local->grounds[i]);
}

/* The calling thread's stacks of a ground, or NULL. */
static struct hf_ground_stacks *stacks_of(const struct hf_ground *ground)
{
    const struct hf_local *local = hf_local_own();
    if (HF_UNLIKELY(local == NULL))
        return NULL;
    struct hf_ground_stacks *stacks = local->grounds[ground->number % HF_GROUNDS_KEPT];
    return HF_LIKELY(stacks != NULL) && stacks->ground == ground ? stacks : NULL;
}

/* The same; makes them if necessary. NULL if the thread can have none. Inside the gate. */
static struct hf_ground_stacks *open_stacks(struct hf_ground *ground)
{
    if (hf_local_own() == NULL)
        hf_local_done(hf_local_use());
    struct hf_local *local = hf_local_own();
    if (local == NULL)
        return NULL;
    struct hf_ground_stacks **stacks = &local->grounds[ground->number % HF_GROUNDS_KEPT];
    if (*stacks == NULL && (*stacks = make_stacks()) == NULL)
        return NULL;
    if ((*stacks)->ground != ground) {
        leave(local, *stacks);
        local->leave_grounds = leave_all;
        (*stacks)->ground = ground;
    }
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (__atomic_load_n(&hf_fast_spaces.at[i].ground, __ATOMIC_ACQUIRE) == ground) {
            __atomic_store_n(&ground->is_fast, true, __ATOMIC_RELAXED);
            local->spaces[i] = *stacks;
        }
    return *stacks;
}

/* ---- small blocks ---- */

static char *pop(struct hf_ground_stacks *stacks, unsigned class)
{
    struct hf_freed *top = stacks->tops[class];
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
    struct hf_pass pass;
    if (HF_LIKELY(block != NULL))
        return block - ground->delta;
    if (!hf_ground_enter(&pass))
        return NULL;
    stacks = open_stacks(ground);
    pthread_mutex_lock(&ground->lock);
    if (HF_LIKELY(stacks != NULL)) {
        stacks->tops[class] +=
            take_free(ground, class, stacks->tops[class] + 1, (room(class) + 1) / 2);
        block = pop(stacks, class);
    } else {
        struct hf_freed one;
        if (take_free(ground, class, &one, 1) != 0) {
            __atomic_store_n(one.state, HF_LIVE, __ATOMIC_RELAXED);
            block = one.block;
        }
    }
    pthread_mutex_unlock(&ground->lock);
    hf_gate_leave(&pass);
    return block != NULL ? block - ground->delta : NULL;
}

static bool push(struct hf_ground_stacks *stacks, unsigned class, struct hf_freed freed)
{
    struct hf_freed *top = stacks->tops[class];
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
    (void)find_place(hf_entry_of(at), at, &place);
    const unsigned class = place.span->class;
    const struct hf_freed freed = {.block = (char *)at + ground->delta, .state = place.state};
    struct hf_ground_stacks *stacks = stacks_of(ground);
    struct hf_pass pass;
    if ((HF_LIKELY(stacks != NULL) && HF_LIKELY(push(stacks, class, freed))) ||
        !hf_ground_enter(&pass))
        return;
    stacks = open_stacks(ground);
    pthread_mutex_lock(&ground->lock);
    if (stacks != NULL)
        put_back(stacks, class, room(class) / 2);
    if (stacks == NULL || !push(stacks, class, freed))
        give_free(ground, &freed);
    pthread_mutex_unlock(&ground->lock);
    hf_gate_leave(&pass);
}

bool hf_ground_each_cached(const struct hf_ground *ground, size_t size,
                           bool (*visit)(void *context, void *at, size_t size), void *context)
{
    const unsigned class = class_of(size);
    const struct hf_ground_stacks *stacks = stacks_of(ground);
    if (stacks == NULL)
        return true;
    for (const struct hf_freed *top = stacks->tops[class]; top->block != NULL; top--)
        if (!visit(context, top->block - ground->delta, sizes[class]))
            return false;
    return true;
}

void hf_ground_empty(struct hf_ground *ground)
{
    struct hf_ground_stacks *stacks = stacks_of(ground);
    struct hf_pass pass;
    if (!hf_ground_enter(&pass))
        return;
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
    hf_gate_leave(&pass);
}

uint64_t hf_ground_small(struct hf_ground *ground)
{
    struct hf_pass pass;
    if (!hf_ground_enter(&pass))
        return 0;
    pthread_mutex_lock(&ground->lock);
    const uint64_t bytes = ground->small;
    pthread_mutex_unlock(&ground->lock);
    hf_gate_leave(&pass);
    return bytes;
}

/* ---- looking ---- */

static struct hf_ground_block describe(const void *at, uintptr_t start, enum hf_state state)
{
    if (state == HF_LIVE)
        return (struct hf_ground_block){.at = (void *)start};
    return (struct hf_ground_block){.was_freed = (uintptr_t)at == start &&
                                                 (state == HF_STACKED || state == HF_REMOTE)};
}

static struct hf_ground_block find_small(const struct hf_entry *entry, const void *at)
{
    struct place place;
    (void)find_place(entry, at, &place);
    struct hf_ground_block found =
        describe(at, place.start, (enum hf_state)__atomic_load_n(place.state, __ATOMIC_RELAXED));
    found.size = sizes[place.span->class];
    found.small = true;
    found.arena = place.span->ground->number;
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
        *found = describe(at, start, (enum hf_state)(word & HF_GROUND_STATE));
    found->size = large->size;
    found->arena = large->ground->number;
    return true;
}

/* A large block's first unit alone tells of it, so the nearest entry before an address decides. No
 * block goes beyond the range that the space gave. */
struct hf_ground_block hf_ground_find(const void *at)
{
    struct hf_ground_block found = {.at = NULL};
    const struct hf_entry *entry = hf_entry_of(at);
    if (hf_ground_has_span(entry))
        return find_small(entry, at);
    for (;; entry--) {
        const struct hf_ground_large *large = hf_ground_large_of(entry);
        if ((large != NULL && find_large(large, at, &found)) || hf_ground_has_span(entry) ||
            entry->is_border || entry == hf_entry_of((void *)hf_region.base))
            return found;
    }
}

bool hf_ground_claim(void *at)
{
    const struct hf_entry *entry = hf_entry_of(at);
    if (hf_ground_has_span(entry)) {
        struct place place;
        uint8_t live = HF_LIVE;
        return find_place(entry, at, &place) &&
               __atomic_compare_exchange_n(place.state, &live, HF_REMOTE, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_RELAXED);
    }
    struct hf_ground_large *large = hf_ground_large_of(entry);
    uintptr_t word = (uintptr_t)at | HF_LIVE;
    return large != NULL &&
           __atomic_compare_exchange_n(&large->word, &word, (uintptr_t)at | HF_REMOTE, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- in a forked child ---- */

void hf_grounds_reset_in_child(void)
{
    is_child = grounds != NULL;
    for (struct hf_ground *ground = grounds; ground != NULL; ground = ground->next)
        pthread_mutex_init(&ground->lock, NULL);
}
