/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See guarded_samples.h. Owns the table of slots; a slot belongs to whoever moved its state to
 * BUSY.
 *
 * The pages of an unused or freed slot, and guards, are one mapping with their neighbours, because
 * the pool begins as one mapping that has been touched. So only live blocks cost mappings, two
 * each.
 */
#include "alloc/diagnose/guarded_samples.h"

#include "alloc/base/maps.h"
#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/faults.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/unwind.h"
#include "alloc/owner/hosted.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS_MAX = 1024,
    DEPTH_MAX = 30,
    USED_MAX = 448, /* slots that may be touched: live blocks, and freed ones that were opened */
    DATA_PAGES = 2, /* of a slot */
    SLOT_PAGES = DATA_PAGES + 1,
    ALIGNMENT = 16,      /* malloc's */
    REGION_SHARE = 64,   /* the pool gets at most this part of the region */
    MAPPING_TRIES = 8,   /* to get the pool */
    FILLER = 0xa5,       /* between a block's end and the guard */
    BUSY_NAPS = 1000000, /* nanoseconds to wait for a slot that changes */
    LOOK_EVERY = 64,     /* slots: how often the process's mappings are counted */
    CROWDED = 32768,
};

enum state { UNUSED, BUSY, LIVE, FREED, OPENED /* freed, and never used again */ };

/* Kept here and not in the report, which has room for the stacks of findings only. */
struct stack {
    const void *frames[DEPTH_MAX];
    size_t depth;
};

static struct slot {
    _Atomic(uint32_t) state;
    atomic_bool opened; /* a live block's guard may be touched */
    bool is_separate;
    unsigned char kind;        /* enum hf_block_kind */
    uint32_t allocated, freed; /* sites */
    struct stack allocated_stack, freed_stack;
    size_t size; /* as requested */
    char *block;
} slots[SLOTS_MAX];

/* When a slot was freed, as a number of `changes`; 0: never used. TAKEN if it cannot be had. Side
 * by side, because an allocation looks at all of them. Hints: the state decides. */
#define TAKEN UINT64_MAX
static _Atomic(uint64_t) freed_at[SLOTS_MAX];

uintptr_t hf_guarded_base;
size_t hf_guarded_size;
static size_t page;
static uint32_t slot_count;
static _Atomic(uint32_t) used;
static _Atomic(uint64_t) changes; /* of the protection of slots */

static const struct hf_hosted *hosted; /* set once, before the first block */
static bool often;                     /* most allocations are sampled */
static atomic_bool frozen;
static _Atomic(uint32_t) next_look; /* when so many are used */

static const char heap_name[] = "heap";

/* ---- the pool ---- */

void hf_guarded_start(const struct hf_hosted *functions, bool is_often)
{
    often = is_often;
    hosted = functions;
}

bool hf_guarded_yield(void)
{
    const size_t size = __atomic_load_n(&hf_guarded_size, __ATOMIC_ACQUIRE);
    return !atomic_exchange(&frozen, true) && size != 0 &&
           mprotect((void *)hf_guarded_base, size, PROT_READ | PROT_WRITE) == 0 &&
           (!often || madvise((void *)hf_guarded_base, size, MADV_NORMAL) == 0);
}

static bool count_mapping(const struct hf_mapping *mapping, void *count)
{
    (void)mapping;
    ++*(size_t *)count;
    return true;
}

/* Whether the process has used up half of the mappings that the system's usual limit allows. */
static bool is_crowded(void)
{
    size_t count = 0;
    return hf_maps_each(count_mapping, &count) != 0 || count > CROWDED;
}

static bool make_pool(void)
{
    const size_t step = (size_t)sysconf(_SC_PAGESIZE);
    const size_t most = (size_t)SLOTS_MAX * SLOT_PAGES * step;
    size_t size = hf_region.limit / REGION_SHARE;
    size = (size < most ? size : most) & -HF_HOSTED_GRANULE;
    char *at =
        size != 0 ? hf_hosted_map(hosted, size, HF_HOSTED_GRANULE, PROT_READ | PROT_WRITE) : NULL;
    if (at == NULL)
        return false;
    *(volatile char *)at = 0;
    if (mprotect(at, size, PROT_NONE) != 0) {
        hf_hosted_unmap(at, size);
        return false;
    }
    page = step;
    slot_count = (uint32_t)(size / (SLOT_PAGES * step));
    hf_guarded_base = (uintptr_t)at;
    __atomic_store_n(&hf_guarded_size, size, __ATOMIC_RELEASE);
    return true;
}

static bool has_pool(void)
{
    static atomic_int tries;
    static atomic_flag making = ATOMIC_FLAG_INIT;
    if (HF_LIKELY(__atomic_load_n(&hf_guarded_size, __ATOMIC_ACQUIRE) != 0))
        return true;
    if (atomic_load(&tries) >= MAPPING_TRIES || atomic_flag_test_and_set(&making))
        return false;
    const bool made = __atomic_load_n(&hf_guarded_size, __ATOMIC_ACQUIRE) != 0 || make_pool();
    atomic_fetch_add(&tries, 1);
    atomic_flag_clear(&making);
    return made;
}

/* The slot that holds an address of the pool; NULL for the few bytes behind the last one. */
static struct slot *slot_at(const void *ptr)
{
    const size_t number = ((uintptr_t)ptr - hf_guarded_base) / (SLOT_PAGES * page);
    return number < slot_count ? &slots[number] : NULL;
}

static char *start_of(const struct slot *slot)
{
    return (char *)hf_guarded_base + (size_t)(slot - slots) * SLOT_PAGES * page;
}

static char *guard_of(const struct slot *slot)
{
    return start_of(slot) + DATA_PAGES * page;
}

static char *first_page_of(const struct slot *slot)
{
    return (char *)((uintptr_t)slot->block & -page);
}

/* ---- allocating ---- */

bool hf_guarded_has_capacity(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed) < USED_MAX;
}

static bool move(struct slot *slot, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong(&slot->state, &from, to);
}

/* A slot that is BUSY now; `before` receives what it was. NULL if none is to be had. */
static struct slot *take_slot(uint32_t *before)
{
    for (int tries = 0; tries < 4; tries++) {
        uint64_t earliest = TAKEN;
        uint32_t oldest = 0;
        for (uint32_t i = 0; i < slot_count && earliest != 0; i++) {
            const uint64_t freed = atomic_load_explicit(&freed_at[i], memory_order_relaxed);
            if (freed < earliest) {
                earliest = freed;
                oldest = i;
            }
        }
        if (earliest == TAKEN)
            return NULL;
        *before = atomic_load(&slots[oldest].state);
        if ((*before == UNUSED || *before == FREED) && move(&slots[oldest], *before, BUSY)) {
            atomic_store(&freed_at[oldest], TAKEN);
            return &slots[oldest];
        }
        (void)atomic_compare_exchange_strong(&freed_at[oldest], &earliest, TAKEN); /* if opened */
    }
    return NULL;
}

static void take_stack(struct stack *stack, uint32_t site)
{
    const void *frames[HF_UNWIND_MAX];
    enum hf_report_function function;
    stack->depth = hf_unwind(hf_site_address(site, &function), frames, DEPTH_MAX);
    memcpy(stack->frames, frames, stack->depth * sizeof frames[0]);
}

/* Where most allocations are sampled, and a slot is used again: makes each of its pages a mapping
 * of its own for good. The kernel merges no pages that are advised about differently, and to split
 * and merge mappings takes it longer than all else. */
static void separate(struct slot *slot)
{
    for (int i = 1; i < SLOT_PAGES && !slot->is_separate; i++)
        (void)madvise(start_of(slot) + (size_t)i * page, page,
                      i % 2 != 0 ? MADV_SEQUENTIAL : MADV_RANDOM);
    slot->is_separate = true;
}

/* Gives a slot's block its place and pages. */
static bool place(struct slot *slot, size_t alignment, size_t size)
{
    char *guard = guard_of(slot);
    char *block = (char *)((uintptr_t)(guard - (size != 0 ? size : 1)) & -alignment);
    char *first = (char *)((uintptr_t)block & -page);
    if (mprotect(first, (size_t)(guard - first), PROT_READ | PROT_WRITE) != 0)
        return false;
    atomic_fetch_add(&changes, 1);
    memset(block + size, FILLER, (size_t)(guard - block) - size);
    slot->block = block;
    slot->size = size;
    return true;
}

void *hf_guarded_allocate(size_t alignment, size_t size, struct hf_site site,
                          enum hf_block_kind kind)
{
    const int saved_errno = errno;
    uint32_t before;
    alignment = alignment > ALIGNMENT ? alignment : ALIGNMENT;
    if (hosted == NULL || hf_forward != NULL || hf_watching || atomic_load(&frozen) ||
        !has_pool() || size > DATA_PAGES * page || alignment > page) {
        errno = saved_errno;
        return NULL;
    }
    void *block = NULL;
    if (atomic_load(&used) >= atomic_load(&next_look)) {
        atomic_fetch_add(&next_look, LOOK_EVERY);
        if (is_crowded())
            (void)hf_guarded_yield();
    }
    if (atomic_fetch_add(&used, 1) < USED_MAX && !atomic_load(&frozen)) {
        struct slot *slot = take_slot(&before);
        if (slot != NULL && often && before == FREED)
            separate(slot);
        if (slot != NULL && place(slot, alignment, size)) {
            slot->kind = (unsigned char)kind;
            slot->allocated = site.number;
            slot->freed = 0;
            take_stack(&slot->allocated_stack, site.number);
            block = slot->block;
            atomic_store_explicit(&slot->state, LIVE, memory_order_release);
        } else if (slot != NULL) {
            atomic_store(&slot->state, before);
            atomic_store(&freed_at[slot - slots], atomic_load(&changes));
        }
    }
    if (block == NULL)
        atomic_fetch_sub(&used, 1);
    errno = saved_errno;
    return block;
}

void hf_guarded_claim(void *ptr, struct hf_site site, enum hf_block_kind kind)
{
    struct slot *slot = slot_at(ptr);
    if (slot == NULL || !move(slot, LIVE, BUSY))
        return;
    if (slot->block == ptr) {
        slot->kind = (unsigned char)kind;
        slot->allocated = site.number;
    }
    atomic_store(&slot->state, LIVE);
}

/* ---- freeing ---- */

static struct hf_event event_of(const struct slot *slot, enum hf_report_rule rule)
{
    return (struct hf_event){
        .rule = rule,
        .ptr = slot->block,
        .allocator = heap_name,
        .allocated_site = slot->allocated,
        .first_freed_site = slot->freed,
        .bytes = slot->size,
        .allocated = {slot->allocated_stack.frames, slot->allocated_stack.depth},
        .first_freed = {slot->freed_stack.frames, slot->freed != 0 ? slot->freed_stack.depth : 0},
    };
}

/* Records a call with what is no live block's first byte. after: the rule for a freed block. */
static void find_wrong_pointer(const void *ptr, const struct slot *slot, enum hf_report_rule after,
                               uint32_t freed_site)
{
    struct hf_event event = {.rule = HF_FAULT_INTERIOR_FREE, .ptr = ptr, .allocator = heap_name};
    const uint32_t state = slot != NULL ? atomic_load(&slot->state) : UNUSED;
    if (state == LIVE)
        event = event_of(slot, HF_FAULT_INTERIOR_FREE);
    else if (state != UNUSED && slot->block == ptr)
        event = event_of(slot, after);
    event.freed_site = freed_site;
    hf_finding(&event);
}

static struct hf_footer described(const struct slot *slot)
{
    return (struct hf_footer){slot->allocated, (enum hf_block_kind)slot->kind, 0};
}

static bool is_overrun(const struct slot *slot)
{
    for (const char *at = slot->block + slot->size; at < guard_of(slot); at++)
        if ((unsigned char)*at != FILLER)
            return true;
    return false;
}

/* Takes the pages away. If the system refuses, an access stays unnoticed. */
static void close_slot(struct slot *slot)
{
    if (atomic_load(&frozen))
        return;
    if (atomic_exchange(&slot->opened, false)) {
        (void)madvise(guard_of(slot), page, MADV_DONTNEED);
        (void)mprotect(start_of(slot), SLOT_PAGES * page, PROT_NONE);
        return;
    }
    char *first = first_page_of(slot);
    (void)mprotect(first, (size_t)(guard_of(slot) - first), PROT_NONE);
}

void hf_guarded_free(void *ptr, struct hf_stated stated, struct hf_call_site call)
{
    const int saved_errno = errno;
    const struct hf_site site = hf_site_of(call.caller, call.function);
    struct slot *slot = slot_at(ptr);
    if (slot == NULL || slot->block != ptr || !move(slot, LIVE, BUSY)) {
        find_wrong_pointer(ptr, slot, HF_FAULT_DOUBLE_FREE, site.number);
        errno = saved_errno;
        return;
    }
    hf_count(hf_site_object(slot->allocated), site.object, slot->size);
    hf_fault_check(ptr, described(slot), slot->size, stated, call.function, site.number);
    if (is_overrun(slot)) {
        struct hf_event event = event_of(slot, HF_FAULT_OVERRUN);
        event.freed_site = site.number;
        hf_finding(&event);
    }
    slot->freed = site.number;
    take_stack(&slot->freed_stack, site.number);
    close_slot(slot);
    atomic_store_explicit(&slot->state, FREED, memory_order_release);
    atomic_store(&freed_at[slot - slots], atomic_fetch_add(&changes, 1) + 1);
    atomic_fetch_sub(&used, 1);
    errno = saved_errno;
}

bool hf_guarded_may_resize(void *ptr, struct hf_call_site call)
{
    const struct hf_site site = hf_site_of(call.caller, call.function);
    const struct slot *slot = slot_at(ptr);
    if (slot != NULL && slot->block == ptr && atomic_load(&slot->state) == LIVE)
        return true;
    find_wrong_pointer(ptr, slot, HF_FAULT_DOUBLE_FREE, site.number);
    return false;
}

size_t hf_guarded_block(const void *ptr, const void **block)
{
    const struct slot *slot = slot_at(ptr);
    *block = NULL;
    if (slot == NULL || atomic_load(&slot->state) != LIVE)
        return 0;
    const size_t size = slot->size != 0 ? slot->size : 1;
    if ((uintptr_t)ptr - (uintptr_t)slot->block >= size)
        return 0;
    *block = slot->block;
    return size;
}

const void *hf_guarded_described(const void *ptr, struct hf_footer *footer, size_t *size)
{
    const void *block;
    if (hf_guarded_block(ptr, &block) == 0)
        return NULL;
    const struct slot *slot = slot_at(ptr);
    *footer = described(slot);
    *size = slot->size;
    return block;
}

size_t hf_guarded_measure(const void *ptr, struct hf_call_site call)
{
    const struct slot *slot = slot_at(ptr);
    if (slot != NULL && slot->block == ptr && atomic_load(&slot->state) == LIVE)
        return slot->size;
    find_wrong_pointer(ptr, slot, HF_FAULT_USE_AFTER_FREE,
                       hf_site_of(call.caller, call.function).number);
    return 0;
}

void hf_guarded_each(void (*visit)(const void *block, size_t capacity, struct hf_footer footer,
                                   bool is_live))
{
    for (uint32_t i = 0; i < slot_count; i++) {
        const struct slot *slot = &slots[i];
        const uint32_t state = atomic_load(&slot->state);
        struct hf_footer footer = described(slot);
        if (state == FREED || state == OPENED)
            footer = (struct hf_footer){slot->allocated, HF_BLOCK_FREED, slot->freed};
        if (state == LIVE || footer.kind == HF_BLOCK_FREED)
            visit(slot->block, slot->size + HF_FOOTER, footer, state == LIVE);
    }
}

/* ---- accesses ---- */

uint64_t hf_guarded_changes(void)
{
    return atomic_load(&changes);
}

/* The slot that an access meant: an access behind a block whose guard is open may reach the next
 * slot. */
static struct slot *slot_meant(const void *address)
{
    struct slot *slot = slot_at(address);
    if (slot == NULL || slot == slots || !atomic_load(&slot[-1].opened))
        return slot;
    const uint32_t state = atomic_load(&slot->state);
    const bool inside = state != UNUSED && state != BUSY && (const char *)address >= slot->block;
    return inside ? slot : slot - 1;
}

static uint32_t settled_state(const struct slot *slot)
{
    const struct timespec nap = {0, 50000};
    uint32_t state = atomic_load(&slot->state);
    for (long waited = 0; state == BUSY && waited < BUSY_NAPS; waited += nap.tv_nsec) {
        (void)nanosleep(&nap, NULL);
        state = atomic_load(&slot->state);
    }
    return state;
}

enum hf_guarded_verdict hf_guarded_judge(const void *address, struct hf_event *event)
{
    const struct slot *slot = slot_meant(address);
    const uint32_t state = slot != NULL ? settled_state(slot) : (uint32_t)UNUSED;
    if (state == UNUSED || state == BUSY)
        return HF_GUARDED_STRANGE;
    *event = event_of(slot, state == LIVE ? HF_FAULT_OVERRUN : HF_FAULT_USE_AFTER_FREE);
    if (state == OPENED || (state == LIVE && atomic_load(&slot->opened)))
        return slot == slot_at(address) ? HF_GUARDED_FINE : HF_GUARDED_OUTSIDE;
    if (state == FREED)
        return HF_GUARDED_FREED;
    const char *first = first_page_of(slot);
    return (const char *)address >= first && (const char *)address < guard_of(slot)
               ? HF_GUARDED_FINE
               : HF_GUARDED_OUTSIDE;
}

bool hf_guarded_open(const void *address)
{
    struct slot *slot = slot_at(address);
    if (slot == NULL || mprotect(start_of(slot), SLOT_PAGES * page, PROT_READ | PROT_WRITE) != 0)
        return false;
    atomic_store(&slot->opened, true);
    atomic_fetch_add(&changes, 1);
    if (move(slot, FREED, OPENED))
        atomic_fetch_add(&used, 1);
    else
        (void)move(slot, UNUSED, OPENED);
    return true;
}
