/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Areas; arenas: opening them, their small blocks, what threads keep of these, and finding blocks.
 * See varena.h. Owns the list of arenas, which are never closed; a lock of its own guards it.
 */
#include "satellites/cuda/varena/varena.h"

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

static uint8_t classes[HF_VARENA_CACHED / HF_VARENA_ALIGNMENT];
static uint32_t sizes[HF_VARENA_CLASSES];

static pthread_mutex_t HF_FORK_LOCK opening = PTHREAD_MUTEX_INITIALIZER;
static struct hf_varena *varenas; /* atomic */
static unsigned varenas_count;
static bool is_child;

static struct hf_varena_freed nothing; /* the end of an empty stack */

/* ---- areas ---- */

static size_t table_size(size_t size)
{
    return size >> HF_VARENA_LG_UNIT << HF_VARENA_LG_ENTRY;
}

bool hf_varena_area_open(struct hf_varena_area *area, uintptr_t base, size_t size)
{
    void *at = mmap(NULL, table_size(size), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    (void)madvise(at, table_size(size), MADV_DONTDUMP);
    area->entries = (void *)((uintptr_t)at - (base >> HF_VARENA_LG_UNIT << HF_VARENA_LG_ENTRY));
    area->base = base;
    __atomic_store_n(&area->size, size, __ATOMIC_RELEASE);
    return true;
}

void hf_varena_area_close(struct hf_varena_area *area)
{
    (void)munmap(hf_varena_entry_in(area, (void *)area->base), table_size(area->size));
    area->size = 0;
}

/* ---- opening ---- */

static void write_tables(void)
{
    uint32_t size = 0, step = HF_VARENA_ALIGNMENT;
    for (unsigned class = 1, i = 0; class < HF_VARENA_CLASSES; class ++) {
        if (size >= HF_VARENA_EXACT && (size & (size - 1)) == 0)
            step = size / 8;
        size += step;
        sizes[class] = size;
        for (; i < size / HF_VARENA_ALIGNMENT; i++)
            classes[i] = (uint8_t) class;
    }
}

struct hf_varena *
hf_varena_open(const struct hf_varena_area *area, void *(*grow)(void *space, size_t size),
               size_t (*lacks)(void *space, const void *at, size_t size, size_t most), void *space)
{
    pthread_mutex_lock(&opening);
    struct hf_varena *varena =
        varenas_count < HF_VARENAS_MOST ? hf_varena_metadata(sizeof *varena) : NULL;
    if (varena != NULL) {
        varena->area = area;
        varena->grow = grow;
        varena->lacks = lacks;
        varena->space = space;
        varena->number = varenas_count++;
        varena->next = varenas;
        pthread_mutex_init(&varena->lock, NULL);
        hf_varena_ranges_start(varena);
        __atomic_store_n(&varenas, varena, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&opening);
    return varena;
}

unsigned hf_varena_number(const struct hf_varena *varena)
{
    return varena->number;
}

static unsigned class_of(size_t size)
{
    return classes[(size - 1) / HF_VARENA_ALIGNMENT];
}

/* ---- spans; with the arena's lock ---- */

static uint8_t *states_of(struct hf_varena_span *span)
{
    return (uint8_t *)span + HF_VARENA_SPAN;
}

static struct hf_varena_span *span_of(const struct hf_varena_entry *entry)
{
    return (struct hf_varena_span *)(void *)(entry->state - HF_VARENA_SPAN);
}

/* Where a small block lies. False if none can start at the address, which a span holds. */
struct place {
    struct hf_varena_span *span;
    uintptr_t start;
    uint8_t *state;
};
static bool find_place(const struct hf_varena_entry *entry, const void *at, struct place *place)
{
    struct hf_varena_span *span = span_of(entry);
    const size_t size = sizes[span->class], index = ((uintptr_t)at - span->start) / size;
    *place = (struct place){span, span->start + index * size, states_of(span) + index};
    return place->start == (uintptr_t)at;
}

/* Whole units with many blocks, of which little is left over. */
static size_t span_bytes(unsigned class)
{
    const size_t size = sizes[class];
    size_t bytes = (size * BLOCKS_LEAST + HF_VARENA_UNIT - 1) & -HF_VARENA_UNIT;
    while (bytes % size * WASTE_PART > bytes)
        bytes += HF_VARENA_UNIT;
    return bytes;
}

static void link_in(struct hf_varena_span *span)
{
    struct hf_varena_span **list = &span->varena->spans[span->class];
    span->previous = NULL;
    span->next = *list;
    if (span->next != NULL)
        span->next->previous = span;
    *list = span;
}

static void link_out(struct hf_varena_span *span)
{
    struct hf_varena_span **list = &span->varena->spans[span->class];
    *(span->previous != NULL ? &span->previous->next : list) = span->next;
    if (span->next != NULL)
        span->next->previous = span->previous;
}

static void give_record(struct hf_varena *varena, struct hf_varena_span *span)
{
    span->next = varena->idle_spans[span->class];
    varena->idle_spans[span->class] = span;
}

static struct hf_varena_span *take_record(struct hf_varena *varena, unsigned class)
{
    struct hf_varena_span *span = varena->idle_spans[class];
    if (span != NULL) {
        varena->idle_spans[class] = span->next;
        return span;
    }
    /* What is left over behind the last block has an index, too. */
    const size_t blocks = span_bytes(class) / sizes[class];
    span = hf_varena_metadata(HF_VARENA_SPAN + blocks + 1);
    if (span != NULL) {
        span->varena = varena;
        span->class = (uint8_t) class;
        span->blocks = (uint16_t)blocks;
        states_of(span)[blocks] = HF_NONE;
    }
    return span;
}

static struct hf_varena_span *make_span(struct hf_varena *varena, unsigned class)
{
    struct hf_varena_span *span = take_record(varena, class);
    if (span == NULL)
        return NULL;
    const size_t bytes = span_bytes(class);
    const bool is_fast = __atomic_load_n(&varena->is_fast, __ATOMIC_RELAXED);
    span->start = hf_varena_range_take(varena, bytes, HF_VARENA_UNIT, true);
    if (span->start == 0) {
        give_record(varena, span);
        return NULL;
    }
    span->free = span->blocks;
    memset(states_of(span), HF_FREE, span->blocks);
    struct hf_varena_entry *entry = hf_varena_entry_in(varena->area, (void *)span->start);
    for (size_t i = 0; i < bytes / HF_VARENA_UNIT; i++) {
        entry[i].first = (uint32_t)span->start;
        entry[i].reciprocal = UINT64_MAX / sizes[class] + 1;
        __atomic_store_n(&entry[i].state, states_of(span), __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].varena, (uint16_t)(varena->number + 1), __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].class, is_fast ? (uint8_t) class : 0, __ATOMIC_RELEASE);
    }
    link_in(span);
    return span;
}

static void end_span(struct hf_varena_span *span)
{
    const size_t bytes = span_bytes(span->class);
    struct hf_varena_entry *entry = hf_varena_entry_in(span->varena->area, (void *)span->start);
    for (size_t i = 0; i < bytes / HF_VARENA_UNIT; i++) {
        __atomic_store_n(&entry[i].class, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].varena, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&entry[i].large, NULL, __ATOMIC_RELEASE);
    }
    link_out(span);
    hf_varena_range_give(span->varena, span->start, bytes);
    give_record(span->varena, span);
}

/* Takes up to so many blocks, and returns how many; `at` gets them. */
static unsigned take_free(struct hf_varena *varena, unsigned class, struct hf_varena_freed *at,
                          unsigned wanted)
{
    unsigned count = 0;
    while (count < wanted) {
        struct hf_varena_span *span = varena->spans[class];
        if (span == NULL && (count > 0 || (span = make_span(varena, class)) == NULL))
            break;
        uint8_t *const states = states_of(span), *const end = states + span->blocks;
        for (uint8_t *state = states;
             count < wanted && (state = memchr(state, HF_FREE, (size_t)(end - state))) != NULL;
             state++) {
            __atomic_store_n(state, HF_STACKED, __ATOMIC_RELAXED);
            at[count++] = (struct hf_varena_freed){
                .block = (char *)(span->start + (size_t)(state - states) * sizes[class]),
                .state = state,
            };
            span->free--;
        }
        if (span->free == 0)
            link_out(span);
    }
    varena->small += (uint64_t)count * sizes[class];
    return count;
}

/* One wholly free span of a class may wait for the next block. */
static void give_free(struct hf_varena *varena, const struct hf_varena_freed *freed)
{
    struct hf_varena_span *span = span_of(hf_varena_entry_in(varena->area, freed->block));
    __atomic_store_n(freed->state, HF_FREE, __ATOMIC_RELAXED);
    varena->small -= sizes[span->class];
    if (span->free++ == 0)
        link_in(span);
    if (span->free == span->blocks && (span->next != NULL || span->previous != NULL))
        end_span(span);
}

/* ---- what threads keep ---- */

/* Blocks that a stack holds. */
static unsigned capacity(unsigned class)
{
    const unsigned fitting = STACK_BYTES / sizes[class];
    return fitting > STACK_MOST ? STACK_MOST : fitting < STACK_LEAST ? STACK_LEAST : fitting;
}

static struct hf_varena_freed *bottom(const struct hf_varena_stacks *stacks, unsigned class)
{
    return stacks->lasts[class] - capacity(class);
}

static struct hf_varena_stacks *make_stacks(void)
{
    size_t places = 0;
    for (unsigned class = 1; class < HF_VARENA_CLASSES; class ++)
        places += capacity(class) + 1;
    struct hf_varena_stacks *stacks =
        hf_varena_metadata(sizeof *stacks + places * sizeof(struct hf_varena_freed));
    if (stacks == NULL)
        return NULL;
    memcpy(stacks->classes, classes, sizeof classes);
    struct hf_varena_freed *stack = (struct hf_varena_freed *)(void *)(stacks + 1);
    stacks->tops[0] = stacks->lasts[0] = &nothing;
    for (unsigned class = 1; class < HF_VARENA_CLASSES; class ++) {
        stacks->tops[class] = stack;
        stacks->lasts[class] = stack + capacity(class);
        stack += capacity(class) + 1;
    }
    return stacks;
}

/* Gives back all but `keep` blocks of a class; with the arena's lock. */
static void put_back(struct hf_varena_stacks *stacks, unsigned class, unsigned keep)
{
    struct hf_varena_freed *top = stacks->tops[class], *end = bottom(stacks, class) + keep;
    for (; top > end; top--)
        give_free(stacks->varena, top);
    stacks->tops[class] = top;
}

static void put_back_all(struct hf_varena_stacks *stacks)
{
    for (unsigned class = 1; class < HF_VARENA_CLASSES; class ++)
        put_back(stacks, class, 0);
}

/* Gives all back, and lets the stacks be another arena's. */
static void leave(struct hf_varena_thread *thread, struct hf_varena_stacks *stacks)
{
    if (stacks == NULL || stacks->varena == NULL)
        return;
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (thread->spaces[i] == stacks)
            thread->spaces[i] = &hf_varena_no_stacks;
    pthread_mutex_lock(&stacks->varena->lock);
    put_back_all(stacks);
    pthread_mutex_unlock(&stacks->varena->lock);
    stacks->varena = NULL;
}

static void leave_all(struct hf_varena_thread *thread)
{
    for (size_t i = 0; i < HF_VARENAS_KEPT && !is_child; i++)
        leave(thread, thread->varenas[i]);
}

/* The calling thread's stacks of an arena, or NULL. */
static struct hf_varena_stacks *stacks_of(const struct hf_varena *varena)
{
    struct hf_varena_stacks *stacks = hf_varena_here->varenas[varena->number % HF_VARENAS_KEPT];
    return HF_LIKELY(stacks != NULL) && stacks->varena == varena ? stacks : NULL;
}

/* The same; makes them if necessary. NULL if the thread can have none. */
static struct hf_varena_stacks *open_stacks(struct hf_varena *varena)
{
    struct hf_varena_thread *thread = hf_varena_thread();
    if (thread == NULL)
        return NULL;
    struct hf_varena_stacks **stacks = &thread->varenas[varena->number % HF_VARENAS_KEPT];
    if (*stacks == NULL && (*stacks = make_stacks()) == NULL)
        return NULL;
    if ((*stacks)->varena != varena) {
        leave(thread, *stacks);
        (*stacks)->varena = varena;
    }
    for (size_t i = 0; i < HF_SPACES_MAX; i++)
        if (__atomic_load_n(&hf_fast_spaces.at[i].varena, __ATOMIC_ACQUIRE) == varena) {
            __atomic_store_n(&varena->is_fast, true, __ATOMIC_RELAXED);
            thread->spaces[i] = *stacks;
        }
    return *stacks;
}

/* ---- small blocks ---- */

static char *pop(struct hf_varena_stacks *stacks, unsigned class)
{
    struct hf_varena_freed *top = stacks->tops[class];
    if (top->block != NULL) {
        stacks->tops[class] = top - 1;
        __atomic_store_n(top->state, HF_LIVE, __ATOMIC_RELAXED);
    }
    return top->block;
}

void *hf_varena_take(struct hf_varena *varena, size_t size)
{
    const unsigned class = class_of(size);
    struct hf_varena_stacks *stacks = stacks_of(varena);
    char *block = HF_LIKELY(stacks != NULL) ? pop(stacks, class) : NULL;
    if (HF_LIKELY(block != NULL))
        return block;
    stacks = open_stacks(varena);
    pthread_mutex_lock(&varena->lock);
    if (HF_LIKELY(stacks != NULL)) {
        stacks->tops[class] +=
            take_free(varena, class, stacks->tops[class] + 1, (capacity(class) + 1) / 2);
        block = pop(stacks, class);
    } else {
        struct hf_varena_freed one;
        if (take_free(varena, class, &one, 1) != 0) {
            __atomic_store_n(one.state, HF_LIVE, __ATOMIC_RELAXED);
            block = one.block;
        }
    }
    pthread_mutex_unlock(&varena->lock);
    return block;
}

static bool push(struct hf_varena_stacks *stacks, unsigned class, struct hf_varena_freed freed)
{
    struct hf_varena_freed *top = stacks->tops[class];
    if (top == stacks->lasts[class])
        return false;
    __atomic_store_n(freed.state, HF_STACKED, __ATOMIC_RELAXED);
    top[1] = freed;
    stacks->tops[class] = top + 1;
    return true;
}

void hf_varena_give(struct hf_varena *varena, void *at)
{
    struct place place;
    (void)find_place(hf_varena_entry_in(varena->area, at), at, &place);
    const unsigned class = place.span->class;
    const struct hf_varena_freed freed = {.block = at, .state = place.state};
    struct hf_varena_stacks *stacks = stacks_of(varena);
    if (HF_LIKELY(stacks != NULL) && HF_LIKELY(push(stacks, class, freed)))
        return;
    stacks = open_stacks(varena);
    pthread_mutex_lock(&varena->lock);
    if (stacks != NULL)
        put_back(stacks, class, capacity(class) / 2);
    if (stacks == NULL || !push(stacks, class, freed))
        give_free(varena, &freed);
    pthread_mutex_unlock(&varena->lock);
}

bool hf_varena_each_cached(const struct hf_varena *varena, size_t size,
                           bool (*visit)(void *context, void *at, size_t size), void *context)
{
    const unsigned class = class_of(size);
    const struct hf_varena_stacks *stacks = stacks_of(varena);
    if (stacks == NULL)
        return true;
    for (const struct hf_varena_freed *top = stacks->tops[class]; top->block != NULL; top--)
        if (!visit(context, top->block, sizes[class]))
            return false;
    return true;
}

void hf_varena_empty(struct hf_varena *varena)
{
    struct hf_varena_stacks *stacks = stacks_of(varena);
    pthread_mutex_lock(&varena->lock);
    if (stacks != NULL)
        put_back_all(stacks);
    for (unsigned class = 1; class < HF_VARENA_CLASSES; class ++)
        for (struct hf_varena_span *span = varena->spans[class], *next; span != NULL; span = next) {
            next = span->next;
            if (span->free == span->blocks)
                end_span(span);
        }
    hf_varena_freed_empty(varena);
    pthread_mutex_unlock(&varena->lock);
}

uint64_t hf_varena_small(struct hf_varena *varena)
{
    pthread_mutex_lock(&varena->lock);
    const uint64_t bytes = varena->small;
    pthread_mutex_unlock(&varena->lock);
    return bytes;
}

/* ---- looking ---- */

static struct hf_varena_block describe(const void *at, uintptr_t start, enum hf_varena_state state)
{
    if (state == HF_LIVE)
        return (struct hf_varena_block){.at = (void *)start};
    return (struct hf_varena_block){.was_freed = (uintptr_t)at == start &&
                                                 (state == HF_STACKED || state == HF_CLAIMED)};
}

static struct hf_varena_block find_small(const struct hf_varena_entry *entry, const void *at)
{
    struct place place;
    (void)find_place(entry, at, &place);
    struct hf_varena_block found = describe(
        at, place.start, (enum hf_varena_state)__atomic_load_n(place.state, __ATOMIC_RELAXED));
    found.size = sizes[place.span->class];
    found.small = true;
    found.number = place.span->varena->number;
    return found;
}

static bool find_large(const struct hf_varena_large *large, const void *at,
                       struct hf_varena_block *found)
{
    const uintptr_t word = __atomic_load_n(&large->word, __ATOMIC_ACQUIRE);
    const uintptr_t start = word & ~HF_VARENA_STATE;
    if ((uintptr_t)at < start)
        return false; /* it starts in the same unit */
    if ((uintptr_t)at - start < large->size)
        *found = describe(at, start, (enum hf_varena_state)(word & HF_VARENA_STATE));
    found->size = large->size;
    found->number = large->varena->number;
    return true;
}

/* A large block's first unit alone tells of it, so the nearest entry before an address decides. No
 * block goes beyond the range that the space gave. */
struct hf_varena_block hf_varena_find(const struct hf_varena_area *area, const void *at)
{
    struct hf_varena_block found = {.at = NULL};
    const struct hf_varena_entry *entry = hf_varena_entry_in(area, at);
    if (hf_varena_has_span(entry))
        return find_small(entry, at);
    for (;; entry--) {
        const struct hf_varena_large *large = hf_varena_large_of(entry);
        if ((large != NULL && find_large(large, at, &found)) || hf_varena_has_span(entry) ||
            entry->is_border || entry == hf_varena_entry_in(area, (void *)area->base))
            return found;
    }
}

bool hf_varena_claim(const struct hf_varena_area *area, void *at)
{
    const struct hf_varena_entry *entry = hf_varena_entry_in(area, at);
    if (hf_varena_has_span(entry)) {
        struct place place;
        uint8_t live = HF_LIVE;
        return find_place(entry, at, &place) &&
               __atomic_compare_exchange_n(place.state, &live, HF_CLAIMED, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_RELAXED);
    }
    struct hf_varena_large *large = hf_varena_large_of(entry);
    uintptr_t word = (uintptr_t)at | HF_LIVE;
    return large != NULL &&
           __atomic_compare_exchange_n(&large->word, &word, (uintptr_t)at | HF_CLAIMED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---- the process ---- */

void hf_varenas_start(void)
{
    write_tables();
    hf_varena_threads_start(leave_all);
}

void hf_varenas_reset_in_child(void)
{
    is_child = varenas != NULL;
    for (struct hf_varena *varena = varenas; varena != NULL; varena = varena->next)
        pthread_mutex_init(&varena->lock, NULL);
}
