/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See samples.h. Owns what samples are drawn with, too; hf_heap_sample() writes it before anybody
 * counts.
 */
#include "alloc/spans/samples.h"

#include "alloc/spans/call.h"
#include "alloc/spans/class_list.h"
#include "alloc/spans/large.h"
#include "alloc/spans/limited.h"
#include "alloc/spans/locals.h"

#include <errno.h>
#include <time.h>

union hf_samples_sealed hf_samples HF_SEALED = {.it.classes = HF_CLASS_TABLE};
static double mean_bytes;
static uint64_t shared_random; /* atomic: for threads without a local heap */

/* ---- drawing ---- */

#define STEP UINT64_C(0x9e3779b97f4a7c15)

/* A number above 0 and up to 1; SplitMix64, whose states are a step apart. */
static double uniform(uint64_t state)
{
    state = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    state = (state ^ state >> 27) * UINT64_C(0x94d049bb133111eb);
    state ^= state >> 31;
    return (double)((state >> 11) + 1) / (double)(UINT64_C(1) << 53);
}

/* -ln x, for 0 < x <= 1, to ten digits: without libm, which libhomefree does not link. */
static double minus_log(double x)
{
    const double ln_2 = 0.69314718055994530942, root = 0.70710678118654752440;
    union {
        double number;
        uint64_t bits;
    } mantissa = {x};
    int exponent = (int)(mantissa.bits >> 52) - 1022;
    mantissa.bits = (mantissa.bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1022) << 52;
    if (mantissa.number < root) {
        mantissa.number *= 2;
        exponent--;
    }
    const double s = (mantissa.number - 1) / (mantissa.number + 1), q = s * s;
    double sum = 0;
    for (int i = 13; i > 0; i -= 2)
        sum = sum * q + 1.0 / i;
    return -(2 * s * sum + exponent * ln_2);
}

/* Bytes until the next sample, at least 1. */
static int64_t draw(uint64_t state)
{
    const double bytes = minus_log(uniform(state)) * mean_bytes, most = (double)(INT64_MAX / 4);
    return bytes < most ? (int64_t)bytes + 1 : INT64_MAX / 4;
}

static uint64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_nsec * STEP;
}

static int64_t draw_for(struct hf_local *local)
{
    if (HF_UNLIKELY(local->random == 0))
        local->random = now() ^ (uintptr_t)local;
    local->random += STEP;
    return draw(local->random);
}

/* Who has no countdown draws for each block: the distribution has no memory. */
static bool is_due(struct hf_local *local, size_t size)
{
    if (local == NULL)
        return draw(__atomic_add_fetch(&shared_random, STEP, __ATOMIC_RELAXED)) <= (int64_t)size;
    const int64_t before = local->sample_left;
    const int64_t left = (before != 0 ? before : draw_for(local)) - (int64_t)size;
    local->sample_left = left > 0 ? left : draw_for(local);
    return left <= 0;
}

/* ---- blocks ---- */

static bool change(const void *ptr, uint8_t from, uint8_t to)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    uint8_t *state;
    if (!hf_entry_has_span(entry))
        return hf_large_set_sampled(ptr, to == HF_SAMPLED);
    return hf_entry_state(entry, ptr, &state) &&
           __atomic_compare_exchange_n(state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void hf_samples_count_now(void *ptr, size_t size)
{
    const int saved_errno = errno;
    if (size != 0 && is_due(hf_local_own(), size) && hf_samples.it.functions->record(ptr, size))
        (void)change(ptr, HF_LIVE, HF_SAMPLED);
    errno = saved_errno;
}

static void end_large(const void *ptr)
{
    uint64_t bytes;
    const int limit = hf_large_limit(ptr, &bytes);
    if (limit >= 0) {
        hf_large_set_limit(ptr, -1);
        hf_limited_credit((unsigned)limit, bytes);
    }
    if (hf_large_set_sampled(ptr, false))
        hf_samples.it.functions->freed(ptr);
}

void hf_samples_end_now(const void *ptr)
{
    const struct hf_entry *entry = hf_entry_of(ptr);
    uint8_t *state;
    if (!hf_entry_has_span(entry)) {
        end_large(ptr);
        return;
    }
    if (!hf_entry_state(entry, ptr, &state))
        return;
    const uint8_t before = __atomic_load_n(state, __ATOMIC_RELAXED);
    if ((before != HF_SAMPLED && before < HF_LIMITED) || !change(ptr, before, HF_LIVE))
        return;
    if (before >= HF_LIMITED)
        hf_limited_put_back(hf_local_own(), hf_limited_of_state(before),
                            hf_class_sizes[entry->class]);
    if (before == HF_SAMPLED || hf_limited_is_sampled(before))
        hf_samples.it.functions->freed(ptr);
}

bool hf_samples_expect_marks(void)
{
    struct hf_seal seal;
    if (hf_samples.it.marks)
        return true;
    const bool opened = hf_seal_open(&seal);
    if (opened) {
        __atomic_store_n(&hf_samples.it.marks, true, __ATOMIC_RELEASE);
        hf_seal_close(&seal);
    }
    return opened;
}

void hf_samples_drop(bool (*gone)(void *context, const void *ptr), void *context)
{
    const struct hf_sample_functions *functions =
        __atomic_load_n(&hf_samples.it.functions, __ATOMIC_ACQUIRE);
    if (functions != NULL)
        functions->drop(gone, context);
}

/* ---- on and off ---- */

static void count_anew(struct hf_local *local, unsigned unused)
{
    (void)unused;
    __atomic_store_n(&local->sample_left, 0, __ATOMIC_RELAXED);
}

int hf_heap_sample(const struct hf_sample_functions *functions, size_t mean)
{
    struct hf_pass pass;
    struct hf_seal seal;
    if (!hf_enter_patiently(&pass))
        return -EAGAIN;
    if (mean != 0) {
        mean_bytes = (double)mean;
        __atomic_store_n(&shared_random, now(), __ATOMIC_RELAXED);
        hf_locals_each(count_anew, 0);
    }
    const bool opened = hf_seal_open(&seal);
    if (opened) {
        if (mean != 0) {
            __atomic_store_n(&hf_samples.it.functions, functions, __ATOMIC_RELEASE);
            __atomic_store_n(&hf_samples.it.marks, true, __ATOMIC_RELEASE);
        }
        for (size_t i = 0; i < sizeof hf_samples.it.classes; i++)
            __atomic_store_n(&hf_samples.it.classes[i], mean != 0 ? HF_CLASSES : hf_class_table[i],
                             __ATOMIC_RELEASE);
        __atomic_store_n(&hf_samples.it.on, mean != 0, __ATOMIC_RELEASE);
        hf_seal_close(&seal);
    }
    hf_gate_leave(&pass);
    return opened ? 0 : -EPERM;
}
