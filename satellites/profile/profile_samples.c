/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See profile_samples.h.
 */
#include "satellites/profile/profile_samples.h"

#include "alloc/base/fork_lock.h"
#include "satellites/profile/book.h"

#include <signal.h>

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

static void begin(sigset_t *signals)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, signals);
    pthread_mutex_lock(&lock);
}

static void end(const sigset_t *signals)
{
    pthread_mutex_unlock(&lock);
    (void)pthread_sigmask(SIG_SETMASK, signals, NULL);
}

/* ---- with the lock ---- */

static struct hf_book_sample *sample_at(uint32_t number)
{
    return (struct hf_book_sample *)hf_book_at(hf_book->samples) + number;
}

static uint32_t *bucket_of(uint64_t block)
{
    const uint64_t hash = (block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    return (uint32_t *)hf_book_at(hf_book->sample_buckets) + (hash & hf_book->sample_buckets_mask);
}

/* Where the number of a block's sample is, and so it can be taken out. */
static uint32_t *find(uint64_t block)
{
    uint32_t *at = bucket_of(block);
    while (*at != 0 && sample_at(*at - 1)->block != block)
        at = &sample_at(*at - 1)->next;
    return at;
}

static void take_out(uint32_t *at)
{
    const uint32_t number = *at - 1;
    struct hf_book_sample *sample = sample_at(number);
    __atomic_store_n(at, sample->next, __ATOMIC_RELEASE);
    __atomic_store_n(&sample->block, 0, __ATOMIC_RELEASE);
    sample->next = hf_book->free_sample;
    __atomic_store_n(&hf_book->free_sample, number + 1, __ATOMIC_RELEASE);
}

/* The number of one that is nobody's; `samples_most` if there is none. */
static uint32_t take_number(void)
{
    const uint32_t used = hf_book->samples_used, number = hf_book->free_sample;
    if (number != 0) {
        hf_book->free_sample = sample_at(number - 1)->next;
        return number - 1;
    }
    if (used < hf_book->samples_most)
        __atomic_store_n(&hf_book->samples_used, used + 1, __ATOMIC_RELEASE);
    return used;
}

static bool add(uint64_t block, uint64_t bytes, uint32_t stack)
{
    uint32_t *at = find(block);
    if (*at != 0) /* a free that nobody told of */
        take_out(at);
    const uint32_t number = take_number();
    if (number == hf_book->samples_most) {
        hf_book->lost++;
        return false;
    }
    struct hf_book_sample *sample = sample_at(number);
    at = bucket_of(block);
    sample->bytes = bytes;
    sample->stack = stack;
    sample->next = *at;
    __atomic_store_n(&sample->block, block, __ATOMIC_RELEASE);
    __atomic_store_n(at, number + 1, __ATOMIC_RELEASE);
    return true;
}

/* ---- for others ---- */

bool hf_profile_samples_begin(uint64_t mean)
{
    sigset_t signals;
    begin(&signals);
    const bool done = hf_book_begin(mean);
    hf_profile_stack_forget();
    end(&signals);
    return done;
}

bool hf_profile_samples_add(const void *block, size_t size, const struct hf_profile_stack *stack)
{
    sigset_t signals;
    begin(&signals);
    const bool done = add((uintptr_t)block, size, hf_profile_stack_keep(stack));
    end(&signals);
    return done;
}

void hf_profile_samples_remove(const void *block)
{
    sigset_t signals;
    begin(&signals);
    uint32_t *at = find((uintptr_t)block);
    if (*at != 0)
        take_out(at);
    end(&signals);
}

void hf_profile_samples_drop(bool (*gone)(void *context, const void *block), void *context)
{
    sigset_t signals;
    begin(&signals);
    for (uint32_t i = 0; i < hf_book->samples_used; i++) {
        const uint64_t block = sample_at(i)->block;
        if (block != 0 && gone(context, (const void *)(uintptr_t)block))
            take_out(find(block));
    }
    end(&signals);
}

bool hf_profile_samples_next(uint32_t *number, struct hf_book_sample *out)
{
    sigset_t signals;
    begin(&signals);
    const uint32_t used = hf_book->samples_used;
    while (*number < used && sample_at(*number)->block == 0)
        ++*number;
    const bool found = *number < used;
    if (found)
        *out = *sample_at(*number);
    end(&signals);
    return found;
}
