/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entry points of the front end (heap/front_end.h) beside the hot ones: allocation that no fast
 * path serves, resizing, measuring, finding, counting, starting. Owns nothing. Callable once the
 * heap has started and is not forwarded (start/family.c).
 */
#include "alloc/base/options.h"
#include "alloc/pages/pages.h"
#include "alloc/spans/between.h"
#include "alloc/spans/call.h"
#include "alloc/spans/deferred.h"
#include "alloc/spans/guards.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/heap_blocks.h"
#include "alloc/spans/heaps.h"
#include "alloc/spans/limited_blocks.h"
#include "alloc/spans/lookup.h"
#include "alloc/spans/samples.h"
#include "alloc/spans/supply.h"
#include "alloc/spans/tick.h"

#include <errno.h>
#include <string.h>

/* ---- allocating ---- */

void *hf_heap_calloc(size_t count, size_t size)
{
    struct hf_pass pass;
    size_t bytes;
    if (HF_UNLIKELY(!hf_enter_patiently(&pass)))
        return hf_fork_calloc(count, size);
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    void *ptr = hf_block_new((struct hf_request){.size = bytes, .zeroed = true});
    hf_gate_leave(&pass);
    return ptr;
}

void *hf_heap_aligned(size_t alignment, size_t size)
{
    struct hf_pass pass;
    if (HF_UNLIKELY(!hf_enter_patiently(&pass)))
        return hf_fork_aligned(alignment, size);
    void *ptr = hf_block_new((struct hf_request){.size = size, .alignment = alignment});
    hf_gate_leave(&pass);
    return ptr;
}

/* ---- resizing ---- */

static bool is_small(const void *ptr)
{
    return hf_entry_has_span(hf_entry_of(ptr));
}

/* A small block stays as long as its class is the one that the size would get, so that a sized free
 * can be checked; a large one grows and shrinks where it is, or takes its pages along. */
static void *resize_in_place(void *ptr, size_t size)
{
    if (is_small(ptr))
        return size <= HF_LARGEST && hf_class_of(size) == hf_entry_of(ptr)->class ? ptr : NULL;
    if (size <= HF_LARGEST)
        return NULL;
    hf_samples_end(ptr);
    void *resized = hf_large_resize(ptr, size);
    if (resized != NULL)
        hf_samples_count(resized, size);
    return resized;
}

static void *resize_guarded(void *ptr, size_t asked, size_t size)
{
    struct hf_entry *entry = hf_entry_of(ptr);
    if (!is_small(ptr) || entry->class == HF_CLASS_NOTHING ||
        resize_in_place(ptr, hf_guard_capacity(size)) == NULL)
        return NULL;
    hf_hardened_resize(ptr, entry, asked, size);
    return ptr;
}

static __attribute__((nonnull(1))) void *resize(void *ptr, size_t usable, size_t size,
                                                const void *caller)
{
    void *resized = HF_LIKELY(hf_hardened == 0) ? resize_in_place(ptr, size)
                                                : resize_guarded(ptr, usable, size);
    if (resized != NULL)
        return resized;
    void *moved = hf_block_new((struct hf_request){.size = size, .heap = hf_heap_holding(ptr)});
    if (HF_LIKELY(moved != NULL)) {
        const size_t kept = size < usable ? size : usable;
        if (HF_LIKELY(hf_hardened == 0) || is_small(ptr))
            memcpy(moved, ptr, kept);
        else
            hf_hardened_move(moved, size, ptr, kept);
        hf_block_give(ptr, caller);
    }
    return moved;
}

static __attribute__((noinline)) void *resize_marked(void *ptr, size_t usable, size_t size,
                                                     const void *caller)
{
    struct hf_limited_resize limited;
    if (!hf_limited_resize_begin(&limited, ptr, size))
        return NULL;
    void *resized = resize(ptr, usable, size, caller);
    hf_limited_resize_end(&limited, resized != NULL ? resized : ptr);
    return resized;
}

/* The gate is closed: moves the block to libc's memory. */
static void *realloc_outside(void *ptr, size_t size, const void *caller)
{
    const size_t usable = hf_block_check(ptr, caller, HF_CORRUPT_IN_REALLOC);
    void *moved = NULL;
    if (size != 0) {
        moved = hf_fork_aligned(0, size);
        if (moved == NULL)
            return NULL;
        memcpy(moved, ptr, size < usable ? size : usable);
    }
    hf_defer_free(ptr, caller);
    return moved;
}

void *hf_heap_realloc(void *ptr, size_t size, const void *caller)
{
    struct hf_pass pass;
    void *resized = NULL;
    if (HF_UNLIKELY(hf_hardened != 0) && !hf_is_watched() && !hf_samples_are_on() &&
        (resized = hf_hardened_realloc(ptr, size, caller)) != NULL)
        return resized;
    if (HF_UNLIKELY(!hf_enter_patiently(&pass)))
        return realloc_outside(ptr, size, caller);
    const size_t usable = hf_block_check(ptr, caller, HF_CORRUPT_IN_REALLOC);
    const bool watched = hf_is_watched();
    if (watched && size != 0 && hf_fail_now()) {
        errno = ENOMEM;
    } else {
        if (watched)
            hf_watch_freed(ptr, caller);
        if (size != 0)
            resized = (hf_samples_have_marks() ? resize_marked : resize)(ptr, usable, size, caller);
        else
            hf_block_give(ptr, caller);
        if (watched && size != 0)
            hf_watch_resized(ptr, resized, size, caller);
    }
    hf_gate_leave(&pass);
    return resized;
}

/* ---- looking ---- */

size_t hf_heap_usable(const void *ptr, const void *caller)
{
    return hf_block_check(ptr, caller, HF_CORRUPT_IN_MEASURE);
}

size_t hf_heap_asked(const void *ptr, const void *caller)
{
    return hf_block_check(ptr, caller, HF_CORRUPT_IN_FREE);
}

size_t hf_heap_block(const void *ptr, const void **block)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    enum hf_state state = HF_FREE;
    size_t size = 0;
    if (hf_entry_has_span(entry)) {
        *block = hf_span_holds(ptr, entry, &state);
        if (*block == NULL || !hf_state_is_live(state)) {
            *block = NULL;
            return 0;
        }
        size = hf_class_sizes[entry->class];
    } else if (hf_hardened != 0) {
        return hf_hardened_holds_large(ptr, block);
    } else {
        size = hf_large_holds(ptr, block);
    }
    if (HF_LIKELY(hf_hardened == 0) || size == 0)
        return size;
    size = hf_guard_least(size, hf_guard_asked(*block, size));
    if (ptr == *block || (uintptr_t)ptr - (uintptr_t)*block < size)
        return size;
    *block = NULL; /* the guard is not the program's */
    return 0;
}

size_t hf_heap_capacity(const void *ptr)
{
    size_t class, capacity;
    if (hf_small_at(ptr, &class, &capacity))
        return capacity;
    int wrong;
    capacity = hf_large_check(ptr, &wrong);
    return wrong < 0 ? capacity : 0;
}

/* Large blocks start at pages, those of a span side by side; but behind a span's last block is a
 * rest, and what comes next may start right where the span ends. */
uintptr_t hf_heap_next(uintptr_t address)
{
    enum { PAGE = 4096 };
    const struct hf_entry *entry = hf_entry_of((const void *)address);
    if (!hf_entry_has_span(entry))
        return (address | (PAGE - 1)) + 1;
    const uint32_t size = hf_classes[entry->class].size;
    const uintptr_t next = address + (size - ((uint32_t)address - entry->first) % size);
    const uintptr_t border = (address | (HF_UNIT - 1)) + 1;
    if (next <= border || !hf_has_entry((const void *)border))
        return next;
    /* The entries of a span, and no others in use, have the same. */
    return hf_entry_of((const void *)border)->state != entry->state ? border : next;
}

int hf_heap_count(struct hf_heap_numbers *out)
{
    enum { TRIES = 2 }; /* of two seconds; another fork may begin at once */
    struct hf_pass pass;
    for (int tries = 0; !hf_enter(&pass); tries++) {
        if (tries == TRIES)
            return -EAGAIN;
        hf_gate_wait_long();
    }
    const struct hf_spans_count spans = hf_spans_count();
    const struct hf_pages_stats pages = hf_pages_stats();
    const struct hf_large_count large = hf_large_count();
    *out = (struct hf_heap_numbers){
        .allocated = spans.live + large.live,
        .active = spans.active + large.live,
        .metadata = spans.metadata + pages.books,
        .arenas = spans.locals != 0 ? (unsigned)spans.locals : 1,
    };
    out->resident = pages.taken + pages.unused + large.moved + out->metadata;
    /* Meanwhile, other threads may have given back what was clean. */
    out->resident -= spans.clean < pages.taken ? spans.clean : pages.taken;
    hf_gate_leave(&pass);
    return 0;
}

int hf_heap_trim(void)
{
    struct hf_pass pass;
    if (!hf_enter_patiently(&pass))
        return -EAGAIN;
    hf_tick_empty();
    if (hf_local_own() != NULL)
        (void)hf_spans_give_pages(hf_local_own(), SIZE_MAX);
    hf_locals_ask();
    hf_gate_leave(&pass);
    return 0;
}

enum hf_look hf_heap_look(uint64_t quiet)
{
    struct hf_pass pass;
    if (!hf_gate_enter(&pass))
        return HF_LOOK_BUSY;
    const enum hf_look look = hf_tick_look(quiet);
    if (look != HF_LOOK_BUSY && hf_tick_asks())
        hf_locals_ask();
    hf_gate_leave(&pass);
    return look;
}

/* ---- starting ---- */

bool hf_heap_boot(enum hf_checks checks)
{
    if (checks == HF_CHECKS_HARDENED || checks == HF_CHECKS_FULL) {
        hf_guards_start(checks == HF_CHECKS_FULL);
        hf_hardened_start(checks == HF_CHECKS_FULL ? HF_HARDENED_ALL
                                                   : (unsigned)hf_options.hardened);
    }
    if (!hf_pages_start() || !hf_spans_start() || !hf_locals_start())
        return false;
    if (hf_hardened != 0)
        hf_local_slow(true);
    if (checks != HF_CHECKS_DIAGNOSED)
        hf_heaps_allow();
    return true;
}
