/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See supply.h.
 */
#include "alloc/spans/supply.h"

#include "alloc/spans/between.h"
#include "alloc/spans/guard_pages.h"
#include "alloc/spans/locals.h"
#include "alloc/spans/metadata.h"
#include "alloc/spans/units.h"
#include "alloc/spans/vector.h"

struct hf_span *hf_span_get(struct hf_local *local, unsigned class)
{
    hf_spans_lock();
    struct hf_span *span = hf_span_adopt(local, class, false);
    if (span == NULL && hf_locals_take_over())
        span = hf_span_adopt(local, class, false);
    /* Before more is taken from pages/, what the local heap keeps at hand is used up; but what
     * waits there in the hardened tier goes on waiting. */
    if (span == NULL && !hf_units_have(hf_classes[class].units) &&
        !hf_hardened_has(HF_HARDENED_WAIT)) {
        hf_spans_unlock();
        hf_spans_unstack(local);
        hf_spans_lock();
    }
    if (span == NULL)
        span = hf_span_make(local, class);
    if (HF_UNLIKELY(span == NULL))
        span = hf_span_adopt(local, class, true);
    hf_spans_unlock();
    return span;
}

static void trim(bool all)
{
    while (hf_locals_take_over() && all)
        continue;
    hf_spans_drain_left();
    hf_units_trim(all);
}

void hf_spans_trim(bool all)
{
    hf_spans_lock();
    trim(all);
    hf_spans_unlock();
}

void hf_spans_trim_much(void)
{
    hf_spans_lock();
    if (HF_UNLIKELY(hf_units_are_idle()))
        trim(true);
    hf_spans_unlock();
}

size_t hf_spans_warm(void)
{
    hf_spans_lock();
    const size_t spans = hf_locals_warm_spans();
    hf_spans_unlock();
    return spans * HF_UNIT;
}

/* ---- looking ---- */

static bool count_span(void *context, struct hf_span *span)
{
    struct hf_spans_count *count = context;
    uint64_t live = 0;
    for (uint32_t at = 0; at < span->before + (uint32_t)span->blocks; at += HF_GROUP) {
        const uint8_t *states = hf_span_states(span) + at;
        live += (uint64_t)__builtin_popcountll(hf_bytes_equal(states, HF_LIVE) |
                                               hf_bytes_equal(states, HF_SAMPLED) |
                                               hf_bytes_high(states));
    }
    count->spans++;
    count->active += hf_span_bytes(span);
    count->blocks += live;
    count->live += live * hf_class_sizes[span->class];
    return true;
}

struct hf_spans_count hf_spans_count(void)
{
    hf_spans_lock();
    struct hf_spans_count count = {
        .clean = hf_units_clean(),
        .metadata = hf_metadata_bytes(),
        .locals = hf_locals_count(),
    };
    hf_spans_each(count_span, &count);
    hf_spans_unlock();
    return count;
}
