/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See heaps.h.
 */
#include "alloc/spans/heaps.h"

#include "alloc/heap/region.h"
#include "alloc/spans/call.h"
#include "alloc/spans/guards.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/heap_blocks.h"
#include "alloc/spans/large.h"
#include "alloc/spans/large_record.h"
#include "alloc/spans/lookup.h"
#include "alloc/spans/metadata.h"
#include "alloc/spans/samples.h"

#include <errno.h>

static bool allowed;
static struct hf_heap *idle; /* spans' lock */

void hf_heaps_allow(void)
{
    allowed = true;
}

struct hf_heap *hf_heap_holding(const void *ptr)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    if (!hf_entry_has_span(entry))
        return hf_large_heap(ptr);
    /* A span of live blocks has an owner, but another thread may give it to another one. */
    const struct hf_local *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);
    return owner->heap;
}

/* ---- making and dropping ---- */

static struct hf_heap *take_record(void)
{
    hf_spans_lock();
    struct hf_heap *heap = idle;
    if (heap != NULL)
        idle = heap->next;
    else if ((heap = hf_metadata_take(sizeof *heap)) != NULL)
        (void)pthread_mutex_init(&heap->lock, NULL);
    hf_spans_unlock();
    return heap;
}

static void give_record(struct hf_heap *heap)
{
    hf_spans_lock();
    heap->next = idle;
    idle = heap;
    hf_spans_unlock();
}

static int make(struct hf_heap **out)
{
    struct hf_pass pass;
    if (!hf_enter_patiently(&pass))
        return -ENOMEM;
    struct hf_heap *heap = take_record();
    if (heap != NULL && (heap->local = hf_local_make()) == NULL) {
        give_record(heap);
        heap = NULL;
    }
    if (heap != NULL) {
        heap->local->heap = heap;
        *out = heap;
    }
    hf_gate_leave(&pass);
    return heap != NULL ? 0 : -ENOMEM;
}

static bool is_in(void *heap, const void *ptr)
{
    return hf_heap_holding(ptr) == heap;
}

static bool drop_large(void *context, const void *ptr, size_t size)
{
    (void)size;
    if (hf_large_heap(ptr) == context)
        (void)(hf_hardened == 0 ? hf_large_give : hf_hardened_give_large)((void *)(uintptr_t)ptr);
    return true;
}

static int drop(struct hf_heap *heap)
{
    struct hf_pass pass;
    if (heap->local == NULL)
        return -EINVAL;
    if (!hf_enter_patiently(&pass))
        return -EAGAIN;
    struct hf_local *local = heap->local;
    hf_samples_drop(is_in, heap);
    heap->local = NULL;
    local->heap = NULL;
    hf_local_drop(local);
    (void)hf_large_each(drop_large, heap);
    give_record(heap);
    hf_gate_leave(&pass);
    return 0;
}

static void *take(struct hf_heap *heap, size_t alignment, size_t size, bool zeroed,
                  const void *caller)
{
    struct hf_pass pass;
    void *ptr = NULL;
    if (!hf_enter_patiently(&pass)) {
        errno = ENOMEM;
        return NULL;
    }
    if (hf_is_watched() && hf_fail_now())
        errno = ENOMEM;
    else
        ptr = hf_block_new((struct hf_request){
            .size = size, .alignment = alignment, .zeroed = zeroed, .heap = heap});
    if (hf_is_watched() && ptr != NULL)
        hf_watch_allocated(ptr, size, caller);
    hf_gate_leave(&pass);
    return ptr;
}

/* ---- walking ---- */

struct walk {
    const struct hf_heap *heap;
    int (*visit)(void *context, void *ptr, size_t size);
    void *context;
    int result;
};

static bool visit_block(struct walk *walk, const void *at)
{
    const void *block;
    const size_t size = hf_heap_block(at, &block);
    if (block != NULL && (walk->heap == NULL || walk->heap == hf_heap_holding(block)))
        walk->result = walk->visit(walk->context, (void *)(uintptr_t)block, size);
    return walk->result == 0;
}

static bool visit_large(void *context, const void *ptr, size_t size)
{
    (void)size;
    if (hf_hardened != 0)
        ptr = hf_hardened_first(ptr);
    return ptr == NULL || visit_block(context, ptr);
}

/* All that an address tells is looked up again for each block, because spans may come and go. */
static bool visit_span(struct walk *walk, const struct hf_entry *entry, char *at)
{
    const struct hf_span *span = hf_entry_span(entry);
    const uint32_t size = hf_classes[span->class].size, end = span->before + (uint32_t)span->blocks;
    char *first = at - ((uint32_t)(uintptr_t)at - entry->first);
    for (uint32_t i = span->before; i < end; i++)
        if (hf_state_is_live(__atomic_load_n(&entry->state[i], __ATOMIC_RELAXED)) &&
            !visit_block(walk, first + (size_t)i * size))
            return false;
    return true;
}

static int walk(const struct hf_heap *heap, int (*visit)(void *context, void *ptr, size_t size),
                void *context)
{
    struct walk walk = {.heap = heap, .visit = visit, .context = context};
    for (char *at = (char *)hf_region.base; hf_has_entry(at) && hf_region_was_reached(at);) {
        const struct hf_entry *entry = hf_entry_of(at);
        size_t units = 1;
        if (hf_entry_has_span(entry)) {
            if (!visit_span(&walk, entry, at))
                return walk.result;
            units = hf_classes[entry->class].units;
        }
        at += units << HF_LG_UNIT;
    }
    (void)hf_large_each(visit_large, &walk);
    return walk.result;
}

const struct hf_live_blocks hf_blocks_live = {
    .region = &hf_region_here,
    .entries = &hf_entry_table,
    .sizes = hf_class_sizes,
    .classes = hf_classes,
    .large = &hf_large_owner,
    .class_count = HF_CLASSES,
    .class_size = sizeof(struct hf_class),
    .class_step = offsetof(struct hf_class, size),
    .class_units = offsetof(struct hf_class, units),
    .unit_shift = HF_LG_UNIT,
    .entry_size = sizeof(struct hf_entry),
    .entry_owner = offsetof(struct hf_entry, owner),
    .entry_state = offsetof(struct hf_entry, state),
    .entry_first = offsetof(struct hf_entry, first),
    .entry_class = offsetof(struct hf_entry, class),
    .entry_waits = offsetof(struct hf_entry, waits),
    .span_size = sizeof(struct hf_span),
    .span_unit = offsetof(struct hf_span, unit),
    .span_blocks = offsetof(struct hf_span, blocks),
    .span_before = offsetof(struct hf_span, before),
    .live = HF_LIVE,
    .sampled = HF_SAMPLED,
    .limited = HF_LIMITED,
    .large_word = offsetof(struct hf_large, word),
    .large_size = offsetof(struct hf_large, size),
    .large_states = HF_LARGE_LIVE,
    .large_live = HF_LARGE_BUSY,
    .large_least = HF_LARGE_KEPT,
};

/* ---- for the rest of alloc/ ---- */

const struct hf_heaps_functions *hf_heaps(void)
{
    static const struct hf_heaps_functions functions = {make, drop, take, walk, hf_heap_holding};
    return allowed ? &functions : NULL;
}
