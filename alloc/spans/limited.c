/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See limited.h.
 */
#include "alloc/spans/limited.h"

#include <errno.h>

struct hf_limited hf_limited[HF_LIMITS_COUNT];

enum { HALF = HF_LIMITED_AT_HAND / 2 };

static void raise_peak(struct hf_limited *limit, uint64_t used)
{
    uint64_t peak = __atomic_load_n(&limit->peak, __ATOMIC_RELAXED);
    while (used > peak && !__atomic_compare_exchange_n(&limit->peak, &peak, used, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* A crossing is told once, until much less is used. */
static void look_below(struct hf_limited *limit, uint64_t used)
{
    enum { PART = 16 };
    if (HF_UNLIKELY(__atomic_load_n(&limit->crossed, __ATOMIC_RELAXED))) {
        const uint64_t most = __atomic_load_n(&limit->most, __ATOMIC_RELAXED);
        if (used <= most - most / PART)
            __atomic_store_n(&limit->crossed, false, __ATOMIC_RELAXED);
    }
}

static bool charge(struct hf_limited *limit, uint64_t bytes, bool strict)
{
    uint64_t used = __atomic_load_n(&limit->used, __ATOMIC_RELAXED);
    do {
        const uint64_t most = __atomic_load_n(&limit->most, __ATOMIC_RELAXED);
        if (strict && (bytes > most || used > most - bytes))
            return false;
    } while (!__atomic_compare_exchange_n(&limit->used, &used, used + bytes, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    raise_peak(limit, used + bytes);
    look_below(limit, used + bytes);
    return true;
}

bool hf_limited_charge(unsigned limit, uint64_t bytes)
{
    return charge(&hf_limited[limit], bytes, !hf_limited[limit].lenient);
}

void hf_limited_force(unsigned limit, uint64_t bytes)
{
    (void)charge(&hf_limited[limit], bytes, false);
}

/* Blocks of an earlier limit of that number may come late. */
void hf_limited_credit(unsigned limit, uint64_t bytes)
{
    struct hf_limited *it = &hf_limited[limit];
    uint64_t used = __atomic_load_n(&it->used, __ATOMIC_RELAXED), left;
    do
        left = used > bytes ? used - bytes : 0;
    while (!__atomic_compare_exchange_n(&it->used, &used, left, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    look_below(it, left);
}

void *hf_limited_refuse(unsigned limit)
{
    __atomic_add_fetch(&hf_limited[limit].refused, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return NULL;
}

bool hf_limited_spend(struct hf_local *local, unsigned limit, uint64_t bytes)
{
    if (HF_UNLIKELY(local == NULL))
        return hf_limited_charge(limit, bytes);
    const uint64_t at_hand = (uint32_t)local->at_hand[limit];
    if (bytes <= at_hand) {
        local->at_hand[limit] = (int32_t)(at_hand - bytes);
        return true;
    }
    /* Near the limit, nobody keeps anything at hand. */
    const uint64_t missing = bytes - at_hand;
    const bool plenty = bytes < PTRDIFF_MAX && charge(&hf_limited[limit], missing + HALF, true);
    if (!plenty && !hf_limited_charge(limit, missing))
        return false;
    local->at_hand[limit] = plenty ? HALF : 0;
    return true;
}

void hf_limited_put_back(struct hf_local *local, unsigned limit, uint64_t bytes)
{
    if (HF_UNLIKELY(local == NULL)) {
        hf_limited_credit(limit, bytes);
        return;
    }
    const uint64_t at_hand = (uint32_t)local->at_hand[limit] + bytes;
    if (at_hand > HF_LIMITED_AT_HAND) {
        local->at_hand[limit] = HALF;
        hf_limited_credit(limit, at_hand - HALF);
    } else {
        local->at_hand[limit] = (int32_t)at_hand;
    }
}

void hf_limited_leave(struct hf_local *local)
{
    for (unsigned i = 0; i < HF_LIMITS_COUNT; i++)
        if (local->at_hand[i] != 0) { /* a write copies a page, in a forked child */
            hf_limited_credit(i, (uint32_t)local->at_hand[i]);
            local->at_hand[i] = 0;
        }
}
