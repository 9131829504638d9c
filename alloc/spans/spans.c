/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spans: making them, whose they are, and the end of both. See span.h.
 *
 * Owns the spans' lock, the records that wait for use, and the spans that threads have left, by
 * class; the lock guards all of these.
 */
#include "alloc/spans/span.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/region.h"
#include "alloc/spans/between.h"
#include "alloc/spans/guard_pages.h"
#include "alloc/spans/metadata.h"
#include "alloc/spans/units.h"
#include "alloc/spans/vector.h"

#include <string.h>
#include <sys/mman.h>

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_span *idle_records[HF_CLASSES];
static struct hf_span *abandoned[HF_CLASSES]; /* read without the lock, as a hint */
static HF_APART struct hf_local orphanage;    /* owns them */
struct hf_span_queues hf_span_queues = {.now = 1};

void hf_spans_lock(void)
{
    pthread_mutex_lock(&lock);
}

void hf_spans_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

bool hf_spans_start(void)
{
    uint8_t *table = hf_region_table(HF_LG_UNIT - HF_LG_ENTRY);
    if (table == NULL)
        return false;
    hf_entry_table = (struct hf_entry *)(void *)table - (hf_region.base >> HF_LG_UNIT);
    return hf_units_start();
}

/* ---- lists ---- */

void hf_span_link(struct hf_span **list, struct hf_span *span)
{
    span->listed = true;
    span->previous = NULL;
    span->next = *list;
    if (span->next != NULL)
        span->next->previous = span;
    *list = span;
}

void hf_span_unlink(struct hf_span **list, struct hf_span *span)
{
    span->listed = false;
    *(span->previous != NULL ? &span->previous->next : list) = span->next;
    if (span->next != NULL)
        span->next->previous = span->previous;
}

static void own(struct hf_local *local, struct hf_span *span)
{
    span->previous_owned = NULL;
    span->next_owned = local->owned;
    if (span->next_owned != NULL)
        span->next_owned->previous_owned = span;
    local->owned = span;
    local->spans++;
    __atomic_store_n(&span->owner, local, __ATOMIC_SEQ_CST);
    struct hf_entry *entry = hf_entry_of(hf_span_start(span));
    for (size_t i = 0; i < hf_classes[span->class].units; i++)
        __atomic_store_n(&entry[i].owner, local, __ATOMIC_RELEASE);
}

static void disown(struct hf_span *span)
{
    span->owner->spans--;
    hf_span_not_sparse(span->owner, span);
    *(span->previous_owned != NULL ? &span->previous_owned->next_owned : &span->owner->owned) =
        span->next_owned;
    if (span->next_owned != NULL)
        span->next_owned->previous_owned = span->previous_owned;
}

/* ---- making and ending ---- */

/* Colours: first blocks that lay at the same offset of their span would share cache sets. Less than
 * a block's size, or less than COLOUR_ROOM for small ones, of which a span has many. */
enum { COLOUR_ROOM = 448, COLOUR_STEP = 64, COLOURS = 8 };

static uint32_t colour_capacity(unsigned class)
{
    const uint32_t size = hf_classes[class].size;
    const uint32_t left = (uint32_t)(hf_classes[class].units * HF_UNIT % size);
    return size <= HF_UNIT / 32 && left < COLOUR_ROOM ? COLOUR_ROOM : left;
}

/* A multiple of the largest power of two that divides the size, so that blocks are aligned to it.
 */
static uint32_t colour_of(unsigned class)
{
    static uint32_t turn;
    const uint32_t size = hf_classes[class].size, capacity = colour_capacity(class);
    const uint32_t alignment = (size & -size) > COLOUR_STEP ? size & -size : COLOUR_STEP;
    const uint32_t colour = turn++ * 5 % COLOURS * COLOUR_STEP;
    return (colour < capacity ? colour : capacity) & -alignment;
}

/* Indices in front of the first block, for a colour. */
static uint32_t before(unsigned class, uint32_t colour)
{
    return (colour + hf_classes[class].size - 1) / hf_classes[class].size;
}

/* Indices that addresses of a span can have, in whole groups. */
static size_t indices(unsigned class, uint32_t in_front)
{
    const size_t all = hf_classes[class].units * HF_UNIT / hf_classes[class].size + in_front + 1;
    return (all + HF_GROUP - 1) & -(size_t)HF_GROUP;
}

static struct hf_span *take_record(unsigned class)
{
    struct hf_span *span = idle_records[class];
    if (span != NULL)
        idle_records[class] = span->next;
    else
        span =
            hf_metadata_take(sizeof *span + indices(class, before(class, colour_capacity(class))));
    return span;
}

static void give_record(struct hf_span *span)
{
    span->next = idle_records[span->class];
    idle_records[span->class] = span;
}

/* Bytes of a span that blocks may lie in. */
static uint32_t capacity_of(unsigned class)
{
    return (uint32_t)(hf_classes[class].units * HF_UNIT - hf_guard_page());
}

/* Makes a span of blocks of no bytes memory that nobody may touch, or memory again. */
static bool protect(char *at, unsigned class, bool on)
{
    if (HF_LIKELY(class != HF_CLASS_NOTHING))
        return true;
    if (hf_region_map(at, HF_UNIT, on ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_FIXED) ==
        MAP_FAILED)
        return false;
    hf_unit_is_open(at);
    return true;
}

/* What another thread may do to a record of this class meanwhile is to queue it, so the fields of
 * the queue stay as they are. */
static void fill(struct hf_span *span, unsigned class, char *at)
{
    const uint32_t size = hf_classes[class].size, colour = colour_of(class);
    const uint32_t in_front = before(class, colour);
    const uint32_t blocks = (capacity_of(class) - colour) / size;
    uint8_t *states = hf_span_states(span);
    memset(states, HF_NONE, indices(class, in_front));
    memset(states + in_front, HF_FREE, blocks);
    span->unit = (uint32_t)(((uintptr_t)at - hf_region.base) >> HF_LG_UNIT);
    span->class = (uint8_t) class;
    span->before = (uint8_t)in_front;
    span->blocks = span->free = (uint16_t)blocks;
    span->when = HF_NEVER;
    span->listed = span->sparse = false;
    span->none = HF_NONE;
    struct hf_entry *entry = hf_entry_of(at);
    for (size_t i = 0; i < hf_classes[span->class].units; i++) {
        entry[i].state = states;
        entry[i].reciprocal = hf_classes[class].reciprocal;
        entry[i].first = (uint32_t)(uintptr_t)(at + colour) - in_front * size;
        entry[i].class = (uint8_t) class;
    }
}

struct hf_span *hf_span_make(struct hf_local *local, unsigned class)
{
    const unsigned units = hf_classes[class].units;
    struct hf_span *span = take_record(class);
    if (span == NULL)
        return NULL;
    span->class = (uint8_t) class;
    char *at = hf_units_take(units);
    if (at == NULL || !protect(at, class, true)) {
        if (at != NULL)
            hf_units_give(at, units);
        give_record(span);
        return NULL;
    }
    fill(span, class, at);
    own(local, span);
    return span;
}

/* What an outdated look finds then is nobody's block; it does not find half of an entry, because
 * the owner goes first. */
static void clear_entries(const struct hf_span *span)
{
    struct hf_entry *entry = hf_entry_of(hf_span_start(span));
    for (size_t i = 0; i < hf_classes[span->class].units; i++)
        __atomic_store_n(&entry[i].owner, NULL, __ATOMIC_SEQ_CST);
}

/* False: the queue is closed. */
static bool push(struct hf_local *owner, struct hf_span *span)
{
    struct hf_span *head = __atomic_load_n(&owner->queue, __ATOMIC_RELAXED);
    do {
        if (head == HF_QUEUE_CLOSED)
            return false;
        span->next_queued = head;
    } while (!__atomic_compare_exchange_n(&owner->queue, &head, span, true, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED));
    return true;
}

/* Leaves an owner's queue to all threads, which look into the orphanage's before they make a span.
 */
static void hand_over(struct hf_local *owner)
{
    struct hf_span *span = __atomic_load_n(&owner->queue, __ATOMIC_RELAXED), *next;
    do
        if (span == HF_QUEUE_CLOSED)
            return;
    while (!__atomic_compare_exchange_n(&owner->queue, &span, NULL, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
    for (; span != NULL; span = next) {
        next = span->next_queued;
        (void)push(&orphanage, span); /* is never closed */
    }
}

void hf_span_end(struct hf_span *span)
{
    char *at = hf_span_start(span);
    struct hf_local *owner = span->owner;
    disown(span);
    __atomic_store_n(&span->owner, NULL, __ATOMIC_SEQ_CST);
    if (HF_UNLIKELY(hf_span_is_queued(span)) && owner != &orphanage) /* since the caller looked */
        hand_over(owner);
    clear_entries(span);
    if (protect(at, span->class, false)) /* otherwise they are lost */
        hf_units_give(at, hf_classes[span->class].units);
    give_record(span);
}

/* Lists a span that has enough free blocks, unless it is listed. */
static void enlist(struct hf_local *local, struct hf_span *span)
{
    if (!span->listed) {
        hf_span_link(&local->bins[span->class].list, span);
        span->when = (uint16_t)hf_span_sparse(span);
    }
    if (span->free >= span->when) {
        span->when = span->blocks;
        local->sparse += !span->sparse;
        span->sparse = true;
    }
}

bool hf_span_settle(struct hf_local *local, struct hf_span *span)
{
    struct hf_bin *bin = &local->bins[span->class];
    struct hf_pass pass;
    enlist(local, span);
    const bool has_another = bin->list != span || span->next != NULL;
    if (span->free != span->blocks || !has_another || hf_span_is_queued(span) ||
        !hf_gate_enter(&pass))
        return false;
    hf_span_unlink(&bin->list, span);
    hf_spans_lock();
    hf_span_end(span);
    hf_spans_unlock();
    hf_gate_leave(&pass);
    return true;
}

/* ---- between local heaps ---- */

/* Turns states of one kind to FREE; returns how many. */
static uint32_t collect(struct hf_span *span, enum hf_state state)
{
    uint8_t *states = hf_span_states(span);
    uint32_t found = 0;
    for (uint32_t at = 0; at < span->before + (uint32_t)span->blocks; at += HF_GROUP)
        for (uint64_t mask = hf_bytes_equal(states + at, state); mask != 0; mask &= mask - 1) {
            __atomic_store_n(&states[at + (uint32_t)__builtin_ctzll(mask)], HF_FREE,
                             __ATOMIC_RELAXED);
            found++;
        }
    __atomic_thread_fence(__ATOMIC_ACQUIRE); /* what others did to the blocks before */
    return found;
}

void hf_span_collect(struct hf_span *span)
{
    const uint32_t found = collect(span, HF_REMOTE);
    if (found != 0)
        span->free = (uint16_t)(span->free + found);
}

void hf_span_queue(struct hf_span *span)
{
    struct hf_local *owner;
    do {
        owner = __atomic_load_n(&span->owner, __ATOMIC_SEQ_CST);
        if (owner == NULL) {
            __atomic_store_n(&span->queued, 0, __ATOMIC_SEQ_CST);
            owner = __atomic_load_n(&span->owner, __ATOMIC_SEQ_CST);
            /* Taken meanwhile, and perhaps freed into. */
            if (owner == NULL || !hf_span_set_queued(span))
                return;
        }
    } while (!push(owner, span)); /* the spans of a closed queue's owner have another one already */
    /* A former owner may not look for long, and `queued` would keep others from telling the present
     * one. */
    if (owner != &orphanage && __atomic_load_n(&span->owner, __ATOMIC_SEQ_CST) != owner)
        hand_over(owner);
}

/* Takes in what was freed in queued spans, and calls `collected` for each of the owner's. */
static void drain(struct hf_local *owner,
                  void (*collected)(struct hf_local *owner, struct hf_span *span))
{
    struct hf_span *span = __atomic_exchange_n(&owner->queue, NULL, __ATOMIC_SEQ_CST), *next;
    for (; span != NULL; span = next) {
        next = span->next_queued;
        if (__atomic_load_n(&span->owner, __ATOMIC_RELAXED) != owner) {
            hf_span_queue(span);
            continue;
        }
        /* Before the look: what comes later queues it again. */
        (void)__atomic_exchange_n(&span->queued, 0, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        hf_span_collect(span);
        collected(owner, span);
    }
}

/* Also of a span that was wholly free before, and could not be given away because of the queue. */
static void collected_own(struct hf_local *local, struct hf_span *span)
{
    if (span->free >= span->when)
        (void)hf_span_settle(local, span);
}

void hf_spans_drain(struct hf_local *local)
{
    if (__atomic_load_n(&local->queue, __ATOMIC_RELAXED) != NULL)
        drain(local, collected_own);
}

/* With the lock. */
static void collected_orphan(struct hf_local *owner, struct hf_span *span)
{
    (void)owner;
    if (span->free == span->blocks && !hf_span_is_queued(span)) {
        hf_span_unlink(&abandoned[span->class], span);
        hf_span_end(span);
    }
}

void hf_spans_drain_left(void)
{
    if (__atomic_load_n(&orphanage.queue, __ATOMIC_RELAXED) != NULL)
        drain(&orphanage, collected_orphan);
}

struct hf_span *hf_span_adopt(struct hf_local *local, unsigned class, bool desperate)
{
    enum { LOOKS = 8 };
    if (local->heap != NULL) /* hf_spans_drop() would end blocks that are not this heap's */
        return NULL;
    hf_spans_drain_left();
    struct hf_span *span = abandoned[class];
    for (int looks = 1; span != NULL && span->free < (desperate ? 1 : hf_span_worth(span)); looks++)
        span = looks < LOOKS || desperate ? span->next : NULL;
    if (span == NULL)
        return NULL;
    hf_span_unlink(&abandoned[class], span);
    disown(span);
    own(local, span);
    hf_span_collect(span);
    return span;
}

static void put_back(struct hf_local *local)
{
    for (unsigned class = 0; class < HF_CLASSES; class ++) {
        struct hf_bin *bin = &local->bins[class];
        for (struct hf_freed *top = local->tops[class]; top->block != NULL; top--) {
            struct hf_span *span = hf_entry_span(hf_entry_of(top->block));
            __atomic_store_n(top->state, HF_FREE, __ATOMIC_RELAXED);
            span->free++;
            local->tops[class] = top - 1;
        }
        if (bin->current != NULL)
            bin->current->free =
                (uint16_t)(bin->current->free + (uint32_t)__builtin_popcountll(bin->mask));
    }
}

/* Does not look into an empty stack, where nobody may have been yet: that takes a page fault. */
void hf_spans_unstack(struct hf_local *local)
{
    enum { LARGEST_KEPT = 256 };
    char *stack = (char *)(local + 1);
    for (unsigned class = 0; class < HF_CLASSES; class ++) {
        const struct hf_freed *bottom = (const struct hf_freed *)(void *)stack;
        stack += hf_local_stack_bytes(class);
        if (hf_classes[class].size <= LARGEST_KEPT)
            continue;
        for (struct hf_freed *top; (top = local->tops[class]) != bottom;) {
            struct hf_span *span = hf_entry_span(hf_entry_of(top->block));
            local->tops[class] = top - 1;
            __atomic_store_n(top->state, HF_FREE, __ATOMIC_RELAXED);
            if (++span->free == span->when)
                (void)hf_span_settle(local, span);
        }
    }
}

/* A thread that a fork left behind may have been anywhere in its fast paths: the states alone
 * count. */
static void recount(struct hf_span *span)
{
    (void)collect(span, HF_STACKED);
    (void)collect(span, HF_REMOTE);
    uint32_t free = 0;
    for (uint32_t at = 0; at < span->before + (uint32_t)span->blocks; at += HF_GROUP)
        free += (uint32_t)__builtin_popcountll(hf_bytes_equal(hf_span_states(span) + at, HF_FREE));
    span->free = (uint16_t)free;
}

static void forget_bins(struct hf_local *local)
{
    for (unsigned class = 0; class < HF_CLASSES; class ++)
        local->bins[class] = (struct hf_bin){.size = hf_classes[class].size};
}

bool hf_spans_are_sparse(struct hf_local *local)
{
    enum { LEAST = 32 };
    if (HF_LIKELY(local->sparse < LEAST) || local->sparse <= local->spans / 2 ||
        local->sparse < local->sparse_most)
        return false;
    local->sparse_most = 2 * local->sparse;
    return true;
}

/* The lists are made anew. */
void hf_spans_empty(struct hf_local *local, bool closed)
{
    if (HF_UNLIKELY(hf_hardened_has(HF_HARDENED_WAIT)))
        return;
    hf_spans_drain(local);
    put_back(local);
    forget_bins(local);
    for (unsigned class = 0; closed && class < HF_CLASSES; class ++)
        local->limits[class] = local->tops[class] + 1;
    hf_spans_lock();
    for (struct hf_span *span = local->owned, *next; span != NULL; span = next) {
        next = span->next_owned;
        span->listed = false;
        hf_span_not_sparse(local, span);
        span->when = (uint16_t)hf_span_worth(span);
        if (span->free == span->blocks && !hf_span_is_queued(span))
            hf_span_end(span);
        else if (span->free >= span->when)
            enlist(local, span);
    }
    local->sparse_most = 2 * local->sparse;
    hf_spans_unlock();
}

void hf_spans_leave(struct hf_local *local, bool stale)
{
    if (!stale)
        put_back(local);
    forget_bins(local);
    for (struct hf_span *span = local->owned, *next; span != NULL; span = next) {
        next = span->next_owned;
        hf_span_not_sparse(local, span);
        own(&orphanage, span);
        span->when = HF_NEVER;
        if (stale)
            recount(span);
        else
            hf_span_collect(span);
        if (span->free == span->blocks && !hf_span_is_queued(span))
            hf_span_end(span);
        else
            hf_span_link(&abandoned[span->class], span);
    }
    local->owned = NULL;
    local->spans = local->sparse = local->sparse_most = 0;
    struct hf_span *span = __atomic_exchange_n(&local->queue, HF_QUEUE_CLOSED, __ATOMIC_SEQ_CST);
    for (struct hf_span *next; span != NULL; span = next) {
        next = span->next_queued;
        hf_span_queue(span);
    }
}

void hf_spans_drop(struct hf_local *local)
{
    struct hf_span *span = __atomic_exchange_n(&local->queue, HF_QUEUE_CLOSED, __ATOMIC_SEQ_CST);
    for (struct hf_span *next; span != NULL; span = next) {
        next = span->next_queued;
        if (span->owner == local)
            __atomic_store_n(&span->queued, 0, __ATOMIC_SEQ_CST);
        else
            hf_span_queue(span);
    }
    forget_bins(local);
    while (local->owned != NULL) {
        if (HF_UNLIKELY(hf_hardened != 0) && local->owned->class != HF_CLASS_NOTHING)
            (void)hf_guard_pages_clear(hf_span_start(local->owned),
                                       capacity_of(local->owned->class));
        hf_span_end(local->owned);
    }
}

static void requeue(struct hf_local *local)
{
    local->queue = NULL;
    for (struct hf_span *span = local->owned, *next; span != NULL; span = next) {
        next = span->next_owned;
        hf_span_collect(span);
        if (local != &orphanage)
            collected_own(local, span);
    }
}

void hf_spans_reset_in_child(struct hf_local *own, struct hf_local *lent)
{
    hf_span_queues.now = hf_span_queues.now % UINT8_MAX + 1; /* never 0 */
    if (own != NULL)
        requeue(own);
    for (struct hf_local *local = lent; local != NULL; local = local->next)
        requeue(local);
    requeue(&orphanage);
}

/* ---- looking ---- */

void hf_spans_each(bool (*visit)(void *context, struct hf_span *span), void *context)
{
    const struct hf_entry *entry = hf_entry_of((void *)hf_region.base);
    const struct hf_entry *end = entry + (hf_region.size >> HF_LG_UNIT);
    for (const char *at = (void *)hf_region.base; entry < end && hf_region_was_reached(at);) {
        size_t units = 1;
        if (entry->owner != NULL && entry->owner != HF_LARGE_OWNER) {
            struct hf_span *span = hf_entry_span(entry);
            if (!visit(context, span))
                return;
            units = hf_classes[span->class].units;
        }
        entry += units;
        at += units << HF_LG_UNIT;
    }
}
