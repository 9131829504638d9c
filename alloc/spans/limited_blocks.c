/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See limited_blocks.h.
 */
#include "alloc/spans/limited_blocks.h"

#include "alloc/spans/call.h"
#include "alloc/spans/guards.h"
#include "alloc/spans/hardened.h"
#include "alloc/spans/large.h"
#include "alloc/spans/locals.h"
#include "alloc/spans/lookup.h"
#include "alloc/spans/samples.h"

#include <errno.h>

/* ---- marks ---- */

int hf_limited_whose(const void *ptr, uint64_t *bytes)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    uint8_t *state;
    if (!hf_entry_has_span(entry))
        return hf_large_limit(ptr, bytes);
    *bytes = hf_class_sizes[entry->class];
    if (!hf_entry_state(entry, ptr, &state))
        return -1;
    const uint8_t now = __atomic_load_n(state, __ATOMIC_RELAXED);
    return now >= HF_LIMITED ? (int)hf_limited_of_state(now) : -1;
}

/* Only whoever has the block says whose it is, so nobody else changes the state, but that a limit
 * ends. */
static void mark(const void *ptr, unsigned limit)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    uint8_t *state;
    if (!hf_entry_has_span(entry))
        hf_large_set_limit(ptr, (int)limit);
    else if (hf_entry_state(entry, ptr, &state))
        __atomic_store_n(
            state, hf_limited_state(limit, __atomic_load_n(state, __ATOMIC_RELAXED) == HF_SAMPLED),
            __ATOMIC_RELAXED);
}

static void unmark(const void *ptr)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    uint8_t *state;
    if (!hf_entry_has_span(entry)) {
        hf_large_set_limit(ptr, -1);
    } else if (hf_entry_state(entry, ptr, &state)) {
        const bool sampled = hf_limited_is_sampled(__atomic_load_n(state, __ATOMIC_RELAXED));
        __atomic_store_n(state, sampled ? HF_SAMPLED : HF_LIVE, __ATOMIC_RELAXED);
    }
}

/* ---- allocating ---- */

/* Bytes that are counted outside the gate: a child that is forked meanwhile counts them for a
 * thread that it does not have. */
enum { FEW = HF_LIMITED_AT_HAND / 2 };

/* The thread has not enough at hand. Reached by a jump. */
static __attribute__((noinline)) void *malloc_more(unsigned limit, size_t size,
                                                   void *(*slow)(unsigned limit, size_t size))
{
    struct hf_local *local = hf_local_own();
    const unsigned class = hf_class_now(size);
    const size_t bytes = hf_class_sizes[class];
    if (limit == HF_LIMITS_COUNT || local == NULL || local != hf_local_get() || bytes > FEW ||
        !hf_limited_spend(local, limit, bytes))
        return slow(limit, size);
    void *ptr = hf_small_take_as(local, class, hf_limited_state(limit, false));
    if (HF_LIKELY(ptr != NULL))
        return ptr;
    hf_limited_put_back(local, limit, bytes);
    return slow(limit, size);
}

void *hf_limited_malloc(unsigned limit, size_t size, void *(*slow)(unsigned limit, size_t size))
{
    if (HF_UNLIKELY(size > HF_LARGEST))
        return slow(limit, size);
    struct hf_local *local = hf_local_get();
    const unsigned class = hf_class_now(size);
    const int32_t left = local->at_hand[limit] - (int32_t)hf_class_sizes[class];
    if (HF_UNLIKELY(left < 0))
        return malloc_more(limit, size, slow);
    void *ptr = hf_small_take_as(local, class, hf_limited_state(limit, false));
    if (HF_UNLIKELY(ptr == NULL))
        return slow(limit, size);
    local->at_hand[limit] = left;
    return ptr;
}

/* Who has just got the block. False: it would be above the limit. */
static bool claim_small(unsigned limit, const struct hf_entry *entry, const void *ptr, bool force)
{
    uint8_t *state;
    if (!hf_entry_state(entry, ptr, &state))
        return true;
    const uint8_t now = __atomic_load_n(state, __ATOMIC_RELAXED);
    if (now != HF_LIVE && now != HF_SAMPLED)
        return true;
    const size_t bytes = hf_class_sizes[entry->class];
    if (!hf_limited_spend(hf_local_own(), limit, bytes)) {
        if (!force)
            return false;
        hf_limited_force(limit, bytes);
    }
    __atomic_store_n(state, hf_limited_state(limit, now == HF_SAMPLED), __ATOMIC_RELAXED);
    return true;
}

static bool claim_large(unsigned limit, const void *ptr, bool force)
{
    const void *block;
    uint64_t bytes;
    if (hf_heap_block(ptr, &block) == 0 || block != ptr || hf_large_limit(ptr, &bytes) >= 0)
        return true;
    if (!hf_limited_charge(limit, bytes)) {
        if (!force)
            return false;
        hf_limited_force(limit, bytes);
    }
    hf_large_set_limit(ptr, (int)limit);
    return true;
}

bool hf_limited_claim(unsigned limit, const void *ptr, bool force)
{
    struct hf_pass pass;
    if (!hf_has_entry(ptr)) /* libc's, because the process forks */
        return true;
    const struct hf_entry *entry = hf_entry_of(ptr);
    const bool small = hf_entry_has_span(entry);
    if (HF_LIKELY(small) && HF_LIKELY(hf_class_sizes[entry->class] <= FEW))
        return claim_small(limit, entry, ptr, force);
    /* No child is forked between the count and the mark. */
    const bool entered = hf_enter_patiently(&pass);
    const bool counted =
        small ? claim_small(limit, entry, ptr, force) : claim_large(limit, ptr, force);
    if (entered)
        hf_gate_leave(&pass);
    return counted;
}

/* ---- resizing ---- */

/* What a block of a size will count. */
static uint64_t bytes_for(size_t size)
{
    const size_t capacity = hf_guard_capacity(size);
    if (capacity <= HF_LARGEST)
        return hf_class_sizes[hf_class_of(capacity)];
    return hf_limited_large(hf_hardened != 0 ? hf_hardened_large_whole(size) : size);
}

bool hf_limited_resize_begin(struct hf_limited_resize *resize, const void *ptr, size_t size)
{
    uint64_t bytes;
    resize->limit = hf_limited_whose(ptr, &bytes);
    if (resize->limit < 0)
        return true;
    const unsigned limit = (unsigned)resize->limit;
    const uint64_t then = size <= PTRDIFF_MAX ? bytes_for(size) : size;
    const uint64_t more = then > bytes ? then - bytes : 0;
    if (more != 0 && !hf_limited_charge(limit, more)) {
        (void)hf_limited_refuse(limit);
        return false;
    }
    resize->counted = bytes + more;
    unmark(ptr);
    return true;
}

uint64_t hf_limited_growth(unsigned limit, const void *ptr, size_t size)
{
    uint64_t bytes;
    if (!hf_has_entry(ptr))
        return 0;
    const int whose = hf_limited_whose(ptr, &bytes);
    const uint64_t then = size <= PTRDIFF_MAX ? bytes_for(size) : size;
    if (then <= bytes || bytes == 0 || (whose >= 0 && (unsigned)whose != limit))
        return 0;
    return whose >= 0 ? then - bytes : then;
}

void hf_limited_resize_end(const struct hf_limited_resize *resize, const void *block)
{
    uint64_t bytes;
    if (resize->limit < 0)
        return;
    const unsigned limit = (unsigned)resize->limit;
    (void)hf_limited_whose(block, &bytes);
    mark(block, limit);
    if (bytes > resize->counted)
        hf_limited_force(limit, bytes - resize->counted);
    else
        hf_limited_credit(limit, resize->counted - bytes);
}

/* ---- limits ---- */

static void forget(struct hf_local *local, unsigned limit)
{
    __atomic_store_n(&local->at_hand[limit], 0, __ATOMIC_RELAXED);
}

int hf_limited_open(unsigned limit, uint64_t most, bool lenient)
{
    struct hf_pass pass;
    if (!hf_enter_patiently(&pass))
        return -EAGAIN;
    hf_locals_each(forget, limit);
    hf_limited[limit] = (struct hf_limited){.most = most, .lenient = lenient};
    const bool marks = hf_samples_expect_marks();
    hf_gate_leave(&pass);
    return marks ? 0 : -EPERM;
}

static bool end_in_span(void *context, struct hf_span *span)
{
    const unsigned limit = *(const unsigned *)context;
    uint8_t *states = hf_span_states(span);
    for (uint32_t i = span->before; i < span->before + (uint32_t)span->blocks; i++) {
        uint8_t state = __atomic_load_n(&states[i], __ATOMIC_RELAXED);
        if (state >= HF_LIMITED && hf_limited_of_state(state) == limit)
            (void)__atomic_compare_exchange_n(&states[i], &state,
                                              hf_limited_is_sampled(state) ? HF_SAMPLED : HF_LIVE,
                                              false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    return true;
}

static bool end_large(void *context, const void *ptr, size_t size)
{
    (void)size;
    uint64_t bytes;
    if (hf_large_limit(ptr, &bytes) == *(const int *)context)
        hf_large_set_limit(ptr, -1);
    return true;
}

int hf_limited_close(unsigned limit)
{
    struct hf_pass pass;
    if (!hf_enter_patiently(&pass))
        return -EAGAIN;
    hf_spans_lock();
    hf_spans_each(end_in_span, &limit);
    hf_spans_unlock();
    (void)hf_large_each(end_large, &limit);
    hf_gate_leave(&pass);
    return 0;
}
