/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See profile_samples.h.
 */
#include "satellites/profile/profile_samples.h"

#include "alloc/base/fork_lock.h"
#include "satellites/profile/book.h"

#include <sched.h>
#include <time.h>

/* The thread that has the lock, as pthread_self() calls it; 0: nobody. In a child it is what every
 * fork lock is there, a fresh mutex, which is all zeros. */
union lock {
    pthread_mutex_t fresh;
    uintptr_t holder; /* atomic */
};
static union lock HF_FORK_LOCK lock = {.fresh = PTHREAD_MUTEX_INITIALIZER};

/* Blocks that handlers freed meanwhile. If there are more, a sample stays until its address is
 * sampled again. */
enum { LATER = 64 };
static uint64_t later[LATER]; /* atomic */
static bool has_later;        /* atomic */

static void take_out_later(void);

/* False: a signal handler interrupted the thread while it had the lock. */
static bool begin(void)
{
    enum { TURNS = 100 };
    const uintptr_t self = (uintptr_t)pthread_self();
    const struct timespec pause = {.tv_nsec = 100000};
    uintptr_t holder = 0;
    for (int i = 0; !__atomic_compare_exchange_n(&lock.holder, &holder, self, false,
                                                 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
         i++, holder = 0) {
        if (holder == self)
            return false;
        if (i < TURNS)
            (void)sched_yield();
        else
            (void)nanosleep(&pause, NULL);
    }
    if (__atomic_load_n(&has_later, __ATOMIC_RELAXED))
        take_out_later();
    return true;
}

static void end(void)
{
    __atomic_store_n(&lock.holder, 0, __ATOMIC_RELEASE);
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

static void remove_sample(uint64_t block)
{
    uint32_t *at = find(block);
    if (*at != 0)
        take_out(at);
}

static void take_out_later(void)
{
    __atomic_store_n(&has_later, false, __ATOMIC_RELAXED);
    for (size_t i = 0; i < LATER; i++) {
        const uint64_t block = __atomic_exchange_n(&later[i], 0, __ATOMIC_RELAXED);
        if (block != 0)
            remove_sample(block);
    }
}

static void put_later(uint64_t block)
{
    for (size_t i = 0; i < LATER; i++) {
        uint64_t none = 0;
        if (__atomic_compare_exchange_n(&later[i], &none, block, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            __atomic_store_n(&has_later, true, __ATOMIC_RELAXED);
            return;
        }
    }
}

static bool add(uint64_t block, uint64_t bytes, uint32_t stack)
{
    remove_sample(block); /* a free that nobody told of */
    const uint32_t number = take_number();
    if (number == hf_book->samples_most) {
        hf_book->lost++;
        return false;
    }
    struct hf_book_sample *sample = sample_at(number);
    uint32_t *at = bucket_of(block);
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
    if (!begin())
        return false;
    const bool done = hf_book_begin(mean);
    hf_profile_stack_forget();
    end();
    return done;
}

bool hf_profile_samples_add(const void *block, size_t size, const struct hf_profile_stack *stack)
{
    if (!begin())
        return false;
    const bool done = add((uintptr_t)block, size, hf_profile_stack_keep(stack));
    end();
    return done;
}

void hf_profile_samples_remove(const void *block)
{
    if (!begin()) {
        put_later((uintptr_t)block);
        return;
    }
    remove_sample((uintptr_t)block);
    end();
}

void hf_profile_samples_drop(bool (*gone)(void *context, const void *block), void *context)
{
    if (!begin())
        return;
    for (uint32_t i = 0; i < hf_book->samples_used; i++) {
        const uint64_t block = sample_at(i)->block;
        if (block != 0 && gone(context, (const void *)(uintptr_t)block))
            take_out(find(block));
    }
    end();
}

uint32_t hf_profile_samples_end(void)
{
    return hf_book != NULL ? __atomic_load_n(&hf_book->samples_used, __ATOMIC_ACQUIRE) : 0;
}

bool hf_profile_samples_next(uint32_t *number, uint32_t below, struct hf_book_sample *out)
{
    if (!begin())
        return false;
    while (*number < below && sample_at(*number)->block == 0)
        ++*number;
    const bool found = *number < below;
    if (found)
        *out = *sample_at(*number);
    end();
    return found;
}
