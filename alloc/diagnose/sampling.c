/* SPDX-License-Identifier: BSD-2-Clause */
/* See sampling.h. */
#include "alloc/diagnose/sampling.h"

#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/timeline.h"

#include <stdatomic.h>
#include <time.h>

__thread int32_t hf_sampling_left;
/* A state of xorshift; 0 in a thread that has had no turn. */
static __thread uint64_t chance __attribute__((tls_model("initial-exec")));

static _Atomic(uint32_t) every;
static atomic_bool is_paced;
static _Atomic(uint64_t) last_tick;
static bool (*_Atomic sees)(void); /* NULL: nothing is sampled */

/* In nanoseconds. */
static uint64_t tick(void)
{
    struct timespec time = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* A length of a countdown: 0 to 2 * `mean` - 2. */
static int32_t draw(uint32_t mean)
{
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (int32_t)((chance >> 32) * (2 * (uint64_t)mean - 1) >> 32);
}

/* Begins the next countdown; the calling thread's first one is longer. Returns whether it is. */
static bool begin_countdown(uint32_t mean)
{
    static _Atomic(uint64_t) threads;
    const bool first = chance == 0;
    if (first)
        chance =
            ((atomic_fetch_add(&threads, 1) + 1) * 0x9e3779b97f4a7c15 ^ (uintptr_t)&chance) | 1;
    hf_sampling_left = draw(mean) + (first ? (int32_t)(mean / 2) : 0);
    return first;
}

bool hf_sampling_is_possible(void)
{
    bool (*const asked)(void) = atomic_load_explicit(&sees, memory_order_acquire);
    return asked != NULL && asked();
}

bool hf_sampling_turn(void)
{
    const uint32_t mean = atomic_load_explicit(&every, memory_order_relaxed);
    const bool first = begin_countdown(mean != 0 ? mean : HF_SAMPLING_USUAL);
    if (hf_report_header() == NULL)
        hf_report_begin();
    const uint64_t now = tick();
    hf_timeline_tick(now);
    if (mean == 0 || (first && mean > 1) ||
        (atomic_load_explicit(&is_paced, memory_order_relaxed) &&
         atomic_exchange(&last_tick, now) == now))
        return false;
    return hf_sampling_is_possible();
}

void hf_sampling_large(void)
{
    if (hf_report_header() == NULL)
        hf_report_begin();
    hf_timeline_tick(tick());
}

void hf_sampling_start(uint32_t wanted, bool paced, bool (*asked)(void))
{
    const uint32_t mean = wanted <= HF_SAMPLING_MAX ? wanted : HF_SAMPLING_MAX;
    atomic_store(&is_paced, paced);
    atomic_store(&every, mean);
    if (mean == 0)
        return;
    atomic_store(&sees, asked);
    chance = 0;
    (void)begin_countdown(mean);
}

void hf_sampling_stop(void)
{
    atomic_store(&every, 0);
    atomic_store(&sees, NULL);
}
