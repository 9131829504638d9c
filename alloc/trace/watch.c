/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records what the heap allocates and frees. Owns the list of open watches. Records at any stage
 * and in any thread that may call the heap, also under the heap's emergency lock and in a forked
 * child.
 *
 * Locks: under the lock of all watches nothing else is locked or called, and the heap holds none of
 * its locks when it calls here. A block is recorded as freed before it is given back, and as
 * allocated after it is handed out, so that no record of another thread's block at the same address
 * comes in between.
 */
#include "alloc/trace/watch.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/seal.h"
#include "alloc/heap/fork_gate.h"
#include "alloc/trace/watch_report.h"
#include "alloc/trace/watch_table.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

bool hf_watching;
__thread const struct hf_watch_call *hf_watch_call;
static HF_SEALED_UNION(void (*)(void), marks_changed) table HF_SEALED;

/* An address in the object that defines the process's free(), which gets the blocks of no foreign
 * allocator. Not &free as seen from here, which may be a PLT entry of the program. */
static const void *process_free = (const void *)gnu_get_libc_version;

#define SIZE_MASK (UINT64_MAX >> 4)

/* NULL entries are unused. A watch is added and removed by a single store, so that a child forked
 * meanwhile, which does not wait for the lock, sees it either open or not. `holds` counts what else
 * keeps `hf_watching` set. */
static struct hf_watch *open_watches[HF_WATCHES_MAX];
static size_t holds;

void hf_watch_offer_thunks(void (*changed)(void))
{
    struct hf_seal seal;
    hf_seal_open_to_start(&seal);
    table.marks_changed = changed;
    hf_seal_close(&seal);
}

void hf_watch_set_home(const void *free_function)
{
    __atomic_store_n(&process_free, free_function, __ATOMIC_RELAXED);
}

/* ---- sides ---- */

/* The object that code lies in, looked up before the lock is taken. */
struct origin {
    const void *key;
    uintptr_t base;
    const char *name; /* NULL: not yet known */
};

/* The name is the loader's string, which stays valid while the object's code is calling us. */
static struct origin origin_of(const void *code)
{
    const struct link_map *map = hf_dynlink_find_fast(code);
    if (map == NULL)
        return (struct origin){code, 0, NULL};
    return (struct origin){map, map->l_addr, hf_dynlink_name(map)};
}

static struct origin origin_of_call(const void *caller)
{
    const struct hf_watch_call *const call = hf_watch_call;
    return origin_of(call != NULL && call->caller != NULL ? call->caller : caller);
}

static uint16_t side_of(struct hf_watch *watch, const struct origin *origin)
{
    if (origin->key == NULL)
        return HF_SIDE_UNKNOWN;
    size_t at = hf_watch_hash((uintptr_t)origin->key, HF_WATCH_SIDES);
    for (;; at = (at + 1) % HF_WATCH_SIDES) {
        struct hf_watch_side *side = &watch->sides[at];
        if (at < HF_SIDE_FIRST)
            continue;
        if (side->key == NULL)
            break;
        if (side->key == origin->key && side->base == origin->base &&
            (origin->name == NULL || side->name == 0 ||
             strcmp(watch->names + side->name, origin->name) == 0))
            return (uint16_t)at;
    }
    /* At most half full, so that the search above always ends. */
    if (watch->sides_used == HF_WATCH_SIDES / 2) {
        watch->dropped++;
        return HF_SIDE_NO_ROOM;
    }
    struct hf_watch_side *side = &watch->sides[at];
    watch->sides_used++;
    side->key = origin->key;
    side->base = origin->base;
    side->is_code = origin->name == NULL;
    if (origin->name != NULL)
        hf_watch_name(watch, side, origin->name);
    return (uint16_t)at;
}

/* ---- pairs ---- */

static void count_crossing(struct hf_watch *watch, uint16_t from, uint16_t to, uint64_t bytes,
                           uint64_t count)
{
    size_t at = hf_watch_hash(((uintptr_t)from << 16 | to) << 4, HF_WATCH_PAIRS);
    struct hf_watch_pair *pair;
    if (from == to)
        return;
    for (pair = &watch->pairs[at]; pair->used && (pair->from != from || pair->to != to);
         pair = &watch->pairs[at])
        at = (at + 1) % HF_WATCH_PAIRS;
    if (!pair->used) {
        if (watch->pairs_used == HF_WATCH_PAIRS / 2) {
            watch->dropped++;
            return;
        }
        watch->pairs_used++;
        *pair = (struct hf_watch_pair){.from = from, .to = to, .used = true};
    }
    pair->count += count;
    pair->bytes += bytes;
}

/* ---- blocks ---- */

/* What each open watch records. */
struct event {
    uintptr_t address;
    size_t size;          /* 0: unknown */
    struct origin origin; /* the caller */
    struct origin owner;  /* of a foreign block */
    bool resized;         /* realloc() succeeded */
    bool freed;           /* the foreign block was freed */
};

static struct event event_at(const void *ptr, size_t size, const void *caller)
{
    return (struct event){
        .address = (uintptr_t)ptr,
        .size = size,
        .origin = origin_of_call(caller),
    };
}

/* A block's own counters saturate; the watch's 64-bit counters never get there. */
static void count_up(uint32_t *counter)
{
    *counter += *counter != UINT32_MAX;
}

static void take_back(uint32_t *counter)
{
    *counter -= *counter != 0 && *counter != UINT32_MAX;
}

/* The entry of an address, created if missing; NULL if there is no room. */
static struct hf_watch_entry *make_entry(struct hf_watch *watch, uintptr_t address)
{
    struct hf_watch_entry *entry = hf_watch_entry_at(watch, address);
    if (entry->address == 0) {
        if (watch->blocks_used == watch->capacity) {
            watch->dropped++;
            return NULL;
        }
        watch->blocks_used++;
        entry->address = address;
    }
    return entry;
}

/* Adds the block to what its allocating side has left, or with -1 takes it from there. */
static void count_left(struct hf_watch *watch, const struct hf_watch_entry *entry, int64_t times)
{
    if (!entry->live || entry->old)
        return;
    struct hf_watch_side *side = &watch->sides[entry->allocated_by];
    side->left += (uint64_t)times;
    side->left_bytes += (uint64_t)times * entry->size;
}

static void record_allocated(struct hf_watch *watch, const struct event *event)
{
    struct hf_watch_entry *entry = make_entry(watch, event->address);
    if (entry == NULL)
        return;
    count_left(watch, entry, -1);
    if (!entry->live) {
        entry->live = 1;
        entry->old = 0;
        count_up(&entry->allocated);
        watch->allocations++;
    }
    if (event->size != 0)
        entry->size = event->size & SIZE_MASK;
    entry->allocated_by = side_of(watch, &event->origin);
    entry->elsewhere = pthread_self() != watch->thread;
    count_left(watch, entry, 1);
}

static void record_freed(struct hf_watch *watch, const struct event *event)
{
    struct hf_watch_entry *entry = make_entry(watch, event->address);
    watch->frees++;
    if (entry == NULL)
        return;
    count_left(watch, entry, -1);
    count_up(&entry->freed);
    entry->freed_by = side_of(watch, &event->origin);
    if (entry->live)
        count_crossing(watch, entry->allocated_by, entry->freed_by, entry->size, 1);
    else
        entry->allocated_by = HF_SIDE_UNKNOWN;
    if (!entry->live || entry->old) {
        count_up(&entry->freed_unmatched);
        watch->before++;
    }
    entry->was_live = entry->live;
    entry->live = 0;
}

/* Undoes record_freed(), but for the crossing and the flags. */
static void take_back_free(struct hf_watch *watch, struct hf_watch_entry *entry)
{
    watch->frees--;
    take_back(&entry->freed);
    if (!entry->was_live || entry->old) {
        take_back(&entry->freed_unmatched);
        watch->before--;
    }
}

/* Undoes a free: the block stayed where it was. If it was resized, it changed sides all the same.
 * No other thread had the address meanwhile. */
static void record_kept(struct hf_watch *watch, const struct event *event)
{
    struct hf_watch_entry *entry = hf_watch_find(watch, event->address);
    /* This watch began after the free, or had no room for it. */
    if (entry == NULL || entry->freed == 0 || entry->live)
        return;
    take_back_free(watch, entry);
    if (!entry->was_live)
        entry->old = 1;
    if (event->resized) {
        entry->live = 1;
        entry->size = event->size & SIZE_MASK;
        entry->allocated_by = entry->freed_by;
        entry->elsewhere = pthread_self() != watch->thread;
    } else if (entry->was_live) {
        entry->live = 1;
        count_crossing(watch, entry->allocated_by, entry->freed_by, -(uint64_t)entry->size,
                       -(uint64_t)1);
    }
    count_left(watch, entry, 1);
}

static void record_foreign(struct hf_watch *watch, const struct event *event)
{
    struct hf_watch_entry *entry = make_entry(watch, event->address);
    watch->foreign += event->freed;
    if (entry == NULL)
        return;
    if (event->freed) {
        count_up(&entry->freed);
        count_up(&entry->freed_unmatched);
    }
    entry->size = event->size & SIZE_MASK;
    entry->allocated_by = side_of(watch, &event->owner);
    entry->freed_by = side_of(watch, &event->origin);
    count_crossing(watch, entry->allocated_by, entry->freed_by, event->size, 1);
}

/* Records the event in every open watch. An event during a fork is lost, because recording must not
 * wait then (fork_gate.h). */
static void record(void (*in)(struct hf_watch *watch, const struct event *event),
                   const struct event *event)
{
    struct hf_pass pass;
    if (!hf_gate_enter(&pass))
        return;
    hf_watch_lock();
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        if (open_watches[i] != NULL)
            in(open_watches[i], event);
    hf_watch_unlock();
    hf_gate_leave(&pass);
}

void hf_watch_allocated(const void *ptr, size_t size, const void *caller)
{
    const struct event event = event_at(ptr, size, caller);
    record(record_allocated, &event);
}

void hf_watch_freed(const void *ptr, const void *caller)
{
    const struct event event = event_at(ptr, 0, caller);
    record(record_freed, &event);
}

void hf_watch_resized(const void *ptr, const void *resized, size_t size, const void *caller)
{
    const bool moved = resized != NULL && resized != ptr;
    struct event event = event_at(moved ? resized : ptr, size, caller);
    event.resized = resized != NULL;
    record(moved ? record_allocated : record_kept, &event);
}

void hf_watch_freed_foreign(const void *ptr, size_t size, const char *object, const void *caller,
                            bool freed)
{
    struct event event = event_at(ptr, size, caller);
    event.owner = object != NULL ? (struct origin){object, 0, object}
                                 : origin_of(__atomic_load_n(&process_free, __ATOMIC_RELAXED));
    event.freed = freed;
    record(record_foreign, &event);
}

void hf_watch_each_mapping(void (*visit)(const void *start, size_t size))
{
    struct {
        const void *start;
        size_t size;
    } open[HF_WATCHES_MAX] = {{NULL, 0}};
    hf_watch_lock();
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        if (open_watches[i] != NULL) {
            open[i].start = open_watches[i];
            open[i].size = open_watches[i]->mapped;
        }
    hf_watch_unlock();
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        if (open[i].start != NULL)
            visit(open[i].start, open[i].size);
}

/* ---- beginning and ending ---- */

static size_t count_open(void)
{
    size_t count = 0;
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        count += open_watches[i] != NULL;
    return count;
}

bool hf_watch_is_open(void)
{
    for (size_t i = 0; i < HF_WATCHES_MAX; i++)
        if (__atomic_load_n(&open_watches[i], __ATOMIC_ACQUIRE) != NULL)
            return true;
    return false;
}

/* Under the lock. */
static void set_watching(void)
{
    __atomic_store_n(&hf_watching, holds > 0 || count_open() > 0, __ATOMIC_RELEASE);
}

void hf_watch_hold(bool hold)
{
    hf_watch_lock();
    holds += hold ? 1 : (size_t)-1;
    set_watching();
    hf_watch_unlock();
    if (hold)
        hf_gate_wait_long(); /* as in hf_watch_begin_here() */
    hf_heap_slow(hold);
}

/* Replaces `before` in the list by `now`; false if `before` is not there. Under the lock. */
static bool replace(const struct hf_watch *before, struct hf_watch *now)
{
    size_t i = 0;
    while (i < HF_WATCHES_MAX && open_watches[i] != before)
        i++;
    if (i == HF_WATCHES_MAX)
        return false;
    __atomic_store_n(&open_watches[i], now, __ATOMIC_RELEASE);
    return true;
}

static int end_here(struct hf_watch *watch)
{
    hf_watch_lock();
    bool was_open = replace(watch, NULL);
    watch->open = false;
    set_watching();
    bool last = was_open && count_open() == 0;
    hf_watch_unlock();
    if (was_open)
        hf_heap_slow(false);
    if (last && table.marks_changed != NULL)
        table.marks_changed();
    return was_open ? 0 : -EALREADY;
}

static void drop_here(struct hf_watch *watch)
{
    int saved_errno = errno;
    (void)end_here(watch);
    (void)munmap(watch, watch->mapped);
    errno = saved_errno;
}

static const struct hf_watch_functions functions = {
    .end = end_here,
    .drop = drop_here,
    .report = hf_watch_report_here,
    .at = hf_watch_at_here,
    .left = hf_watch_left_here,
};

int hf_watch_begin_here(struct hf_watch **out, size_t capacity)
{
    if (out == NULL || capacity > HF_WATCH_ROOM_MAX)
        return -EINVAL;
    capacity = capacity != 0 ? capacity : HF_WATCH_ROOM;
    size_t slots = 2;
    while (slots < 2 * capacity)
        slots *= 2;
    size_t size = sizeof(struct hf_watch) + slots * sizeof(struct hf_watch_entry);
    int saved_errno = errno;
    struct hf_watch *watch = mmap(NULL, size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved_errno;
    if (watch == MAP_FAILED)
        return -ENOMEM;
    watch->functions = &functions;
    watch->mapped = size;
    watch->capacity = capacity;
    watch->slots = slots;
    watch->names_used = 1; /* the first name is "" */
    watch->thread = pthread_self();
    hf_watch_lock();
    watch->open = true; /* before it becomes visible */
    const bool opened = replace(NULL, watch);
    set_watching();
    bool first = opened && count_open() == 1;
    hf_watch_unlock();
    if (!opened) {
        (void)munmap(watch, size);
        return -ENOSPC;
    }
    hf_gate_wait_long(); /* during a fork, threads stay on their fast paths */
    hf_heap_slow(true);
    if (first && table.marks_changed != NULL)
        table.marks_changed();
    *out = watch;
    return 0;
}

int hf_watch_end(struct hf_watch *watch)
{
    return watch != NULL ? watch->functions->end(watch) : -EINVAL;
}

void hf_watch_drop(struct hf_watch *watch)
{
    if (watch != NULL)
        watch->functions->drop(watch);
}

int hf_watch_report(struct hf_watch *watch, struct hf_watch_report *out, hf_crossing_visitor *visit,
                    void *context)
{
    return watch != NULL ? watch->functions->report(watch, out, visit, context) : -EINVAL;
}

int hf_watch_at(struct hf_watch *watch, const void *block, struct hf_watch_block *out)
{
    return watch != NULL ? watch->functions->at(watch, block, out) : -EINVAL;
}

int hf_watch_left(struct hf_watch *watch, hf_left_visitor *visit, void *context)
{
    return watch != NULL ? watch->functions->left(watch, visit, context) : -EINVAL;
}
