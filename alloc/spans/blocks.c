/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of spans, where the fast paths (small.h) do not do. See span.h. Owns nothing.
 */
#include "alloc/heap/fork_gate.h"
#include "alloc/heap/region.h"
#include "alloc/spans/between.h"
#include "alloc/spans/small.h"
#include "alloc/spans/supply.h"
#include "alloc/spans/tick.h"
#include "alloc/spans/vector.h"

#include <errno.h>

/* ---- taking ---- */

/* The next group of the current span that has free blocks, in address order. */
static bool next_group(struct hf_bin *bin, struct hf_span *span)
{
    uint8_t *states = hf_span_states(span);
    const uint32_t end = span->before + (uint32_t)span->blocks;
    for (uint32_t at = bin->group; span->free != 0 && at < end; at += HF_GROUP) {
        const uint64_t mask = hf_bytes_equal(states + at, HF_FREE);
        if (mask == 0)
            continue;
        bin->mask = mask;
        bin->group_state = states + at;
        bin->group_first = hf_span_block(span, at);
        bin->group = at + HF_GROUP;
        span->free = (uint16_t)(span->free - (uint32_t)__builtin_popcountll(mask));
        return true;
    }
    bin->group = 0;
    return false;
}

/* Without memory: a span of the local heap's that is not worth listing otherwise. */
static struct hf_span *last_resort(const struct hf_local *local, unsigned class)
{
    struct hf_span *span = local->owned;
    while (span != NULL && (span->class != class || span->free == 0))
        span = span->next_owned;
    return span;
}

/* Looking into the queue takes the states' lines from the threads that free, so that it is worth it
 * for many blocks only: before the class gets a span from elsewhere, and else every so often, since
 * spans of other classes may be wholly free. */
bool hf_bin_refill(struct hf_local *local, unsigned class)
{
    enum { DRAIN_AFTER = 64 };
    struct hf_bin *bin = &local->bins[class];
    if (HF_LIKELY(local->tops[class]->block == NULL)) /* hf_spans_empty() may have closed it */
        local->limits[class] = local->tops[class] + hf_classes[class].stack + 1;
    if (++local->refills % DRAIN_AFTER == 0)
        hf_spans_drain(local);
    for (;;) {
        struct hf_span *span = bin->current;
        if (span != NULL) {
            if (next_group(bin, span))
                return true;
            if (span->free >= hf_span_worth(span))
                continue; /* freed in front of the last group */
            bin->current = NULL;
            span->when = (uint16_t)hf_span_worth(span);
        }
        if (bin->list == NULL)
            hf_spans_drain(local);
        span = bin->list;
        if (span != NULL) {
            hf_span_unlink(&bin->list, span);
            hf_span_not_sparse(local, span);
        } else if ((span = hf_span_get(local, class)) == NULL &&
                   (span = last_resort(local, class)) == NULL) {
            return false;
        }
        span->when = HF_NEVER;
        bin->current = span;
        bin->group = 0;
    }
}

void *hf_span_take(struct hf_local *local, unsigned class)
{
    void *block = hf_small_take(local, class);
    return block != NULL || !hf_bin_refill(local, class) ? block : hf_small_take(local, class);
}

/* ---- giving back ---- */

void hf_span_reached(struct hf_local *local, struct hf_span *span)
{
    struct hf_pass pass;
    const int saved_errno = errno; /* free() keeps it, and the system may refuse to take pages */
    const bool given = hf_span_settle(local, span), sparse = hf_spans_are_sparse(local);
    if (HF_UNLIKELY(given || sparse) && hf_gate_enter(&pass)) {
        hf_tick();
        if (HF_UNLIKELY(sparse))
            hf_spans_empty(local, true);
        hf_tick_freed();
        hf_gate_leave(&pass);
    }
    errno = saved_errno;
}

void hf_span_give_remote(uint8_t *state, struct hf_entry *entry)
{
    struct hf_span *span = hf_entry_span(entry);
    __atomic_store_n(state, HF_REMOTE, __ATOMIC_SEQ_CST);
    hf_span_hint(span);
}

int hf_span_give(struct hf_local *local, void *ptr, struct hf_entry *entry)
{
    struct hf_local *owner = __atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE);
    if (owner == NULL)
        return HF_CORRUPT_NO_BLOCK;
    const bool given =
        owner == local ? hf_small_give(local, ptr, entry) : hf_small_give_remote(ptr, entry);
    if (HF_LIKELY(given))
        return -1;
    const int wrong = hf_span_check(ptr, entry);
    return wrong >= 0 ? wrong : HF_CORRUPT_FREED; /* handed out again meanwhile */
}

/* ---- looking ---- */

/* The state that an address has. The entry may change meanwhile, if no block of the caller's lies
 * there: so the record tells the size, and whether there is such an index. NULL if there is none.
 */
static const uint8_t *look(const void *ptr, const struct hf_entry *entry, bool *first)
{
    if (__atomic_load_n(&entry->owner, __ATOMIC_ACQUIRE) == NULL)
        return NULL;
    uint8_t *states = __atomic_load_n(&entry->state, __ATOMIC_RELAXED);
    const struct hf_span *span = (const struct hf_span *)(const void *)states - 1;
    const uint32_t size = hf_classes[span->class].size;
    const uint32_t difference = (uint32_t)(uintptr_t)ptr - entry->first;
    *first = difference % size == 0;
    return difference / size < span->before + (uint32_t)span->blocks ? states + difference / size
                                                                     : NULL;
}

int hf_span_check(const void *ptr, const struct hf_entry *entry)
{
    bool first;
    const uint8_t *state = look(ptr, entry, &first);
    const uint8_t found = state != NULL ? __atomic_load_n(state, __ATOMIC_RELAXED) : HF_NONE;
    if (hf_state_is_live(found))
        return first ? -1 : HF_CORRUPT_INSIDE;
    switch (found) {
    case HF_FREE: /* or never handed out, which is rarer a mistake */
    case HF_STACKED:
    case HF_REMOTE:
    case HF_BUSY:
        return first ? HF_CORRUPT_FREED : HF_CORRUPT_NO_BLOCK;
    default:
        return HF_CORRUPT_NO_BLOCK;
    }
}

char *hf_span_holds(const void *ptr, const struct hf_entry *entry, enum hf_state *state)
{
    bool first;
    const uint8_t *at = look(ptr, entry, &first);
    if (at == NULL)
        return NULL;
    *state = (enum hf_state)__atomic_load_n(at, __ATOMIC_RELAXED);
    if (*state == HF_NONE)
        return NULL;
    return hf_span_block(hf_entry_span(entry), (uint32_t)(at - entry->state));
}
