/* SPDX-License-Identifier: BSD-2-Clause */
/* See timeline.h. */
#include "alloc/diagnose/timeline.h"

#include "alloc/base/clock.h"
#include "alloc/diagnose/counts.h"
#include "alloc/diagnose/report_file.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum {
    MOMENTS = 256, /* of one distance; then it doubles */
    DISTANCES = 24,
    RECORDS_MAX = 24576, /* 576 KiB */
    LEAST_CHANGE = 4096, /* bytes, or a part of all bytes */
    CHANGE_PART = 256,
    COST_PART = 100
};
static const uint64_t first_distance = 10000000; /* nanoseconds */

static _Atomic(uint64_t) next = UINT64_MAX; /* moment; of CLOCK_MONOTONIC */
static uint64_t started;
static atomic_flag busy = ATOMIC_FLAG_INIT; /* guards what follows */
static uint32_t moments, records, objects;
static int64_t live[HF_COUNTS_OBJECTS], told[HF_COUNTS_OBJECTS];

static bool write_record(uint64_t time, uint32_t object, uint64_t bytes)
{
    struct hf_report_sample *sample =
        records < RECORDS_MAX ? hf_report_add(HF_REPORT_SAMPLES, sizeof *sample, NULL) : NULL;
    if (sample == NULL)
        return false;
    *sample = (struct hf_report_sample){.time = time, .bytes = bytes, .object = object};
    hf_report_publish(HF_REPORT_SAMPLES, sizeof *sample);
    records++;
    return true;
}

/* Writes the objects whose bytes have changed, but for what cannot be seen in a picture. A child
 * has blocks of its parent, whose bytes it does not know: they may make a sum negative. */
static void write_moment(uint64_t now, bool last)
{
    int64_t all = 0;
    memset(live, 0, objects * sizeof live[0]);
    objects = hf_counts_live(live);
    for (uint32_t i = 0; i < objects; i++) {
        live[i] = live[i] > 0 ? live[i] : 0;
        all += live[i];
    }
    const int64_t least =
        last ? 0 : (all / CHANGE_PART > LEAST_CHANGE ? all / CHANGE_PART : LEAST_CHANGE);
    if (!hf_report_lock())
        return;
    for (uint32_t i = 0; i < objects; i++) {
        const int64_t change = live[i] - told[i];
        if (change != 0 && (change > least || change < -least) &&
            write_record(now - started, i, (uint64_t)live[i]))
            told[i] = live[i];
    }
    hf_report_unlock();
    moments++;
}

void hf_timeline_start(void)
{
    started = hf_clock(CLOCK_MONOTONIC_COARSE);
    atomic_store(&next, started + first_distance);
}

void hf_timeline_tick(uint64_t coarse)
{
    if (coarse < atomic_load_explicit(&next, memory_order_relaxed) ||
        atomic_flag_test_and_set(&busy))
        return;
    const uint64_t now = hf_clock(CLOCK_MONOTONIC_COARSE);
    if (now >= atomic_load(&next)) {
        const uint64_t begun = hf_clock_exact(CLOCK_THREAD_CPUTIME_ID);
        write_moment(now, false);
        const uint32_t doublings = moments / MOMENTS < DISTANCES ? moments / MOMENTS : DISTANCES;
        const uint64_t distance = first_distance << doublings;
        const uint64_t wait = (hf_clock_exact(CLOCK_THREAD_CPUTIME_ID) - begun) * COST_PART;
        /* The first one takes long, because it begins a part of the file. */
        atomic_store(&next, now + (wait > distance && moments > 1 ? wait : distance));
    }
    atomic_flag_clear(&busy);
}

void hf_timeline_end(void)
{
    if (atomic_flag_test_and_set(&busy))
        return;
    if (moments != 0)
        write_moment(hf_clock(CLOCK_MONOTONIC_COARSE), true);
    atomic_flag_clear(&busy);
}

void hf_timeline_stop(void)
{
    atomic_store(&next, UINT64_MAX);
}

void hf_timeline_in_child(void)
{
    atomic_flag_clear(&busy);
    moments = records = 0;
    memset(told, 0, sizeof told);
    if (atomic_load(&next) != UINT64_MAX)
        hf_timeline_start();
}
