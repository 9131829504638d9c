/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the counts of homefree/fail.h: one for the process, and one for each thread that counts.
 * A slot belongs to the thread that claimed it until that thread gives it back; other threads only
 * look whose it is. No lock.
 */
#include "alloc/trace/fail.h"

#include "alloc/base/sized.h"

#include <pthread.h>

struct count {
    pthread_t owner; /* 0: unused; the process's has any other value */
    bool onwards;
    uint64_t at; /* the call that fails; 0: none */
    uint64_t calls, failed;
};

static struct count threads[HF_FAIL_THREADS_MAX];
static struct count process;

static bool belongs_to(const struct count *count, pthread_t owner)
{
    return __atomic_load_n(&count->owner, __ATOMIC_ACQUIRE) == owner;
}

/* The calling thread's count, or NULL. */
static struct count *own(void)
{
    const pthread_t self = pthread_self();
    for (size_t i = 0; i < HF_FAIL_THREADS_MAX; i++)
        if (belongs_to(&threads[i], self))
            return &threads[i];
    return NULL;
}

static bool count_one(struct count *count)
{
    const uint64_t call = __atomic_add_fetch(&count->calls, 1, __ATOMIC_RELAXED);
    const uint64_t at = __atomic_load_n(&count->at, __ATOMIC_RELAXED);
    if (at == 0 || call < at || (call > at && !__atomic_load_n(&count->onwards, __ATOMIC_RELAXED)))
        return false;
    __atomic_add_fetch(&count->failed, 1, __ATOMIC_RELAXED);
    return true;
}

const struct hf_watch_call hf_own_call = {.caller = &hf_region};

bool hf_fail_now(void)
{
    if (hf_watch_call == &hf_own_call)
        return false;
    struct count *count = own();
    const bool thread_fails = count != NULL && count_one(count);
    const bool process_fails = !belongs_to(&process, 0) && count_one(&process);
    return thread_fails || process_fails;
}

bool hf_fail_is_counting(void)
{
    return own() != NULL || !belongs_to(&process, 0);
}

/* Takes the count for the caller if nobody has it. */
static bool claim(struct count *count)
{
    pthread_t nobody = 0;
    return __atomic_compare_exchange_n(&count->owner, &nobody, pthread_self(), false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static struct count *claim_any(void)
{
    for (size_t i = 0; i < HF_FAIL_THREADS_MAX; i++)
        if (claim(&threads[i]))
            return &threads[i];
    return NULL;
}

int hf_fail_at_here(uint64_t call, unsigned flags)
{
    if ((flags & ~(HF_FAIL_PROCESS | HF_FAIL_ONWARDS)) != 0)
        return -EINVAL;
    struct count *count;
    bool begins;
    if ((flags & HF_FAIL_PROCESS) != 0) {
        count = &process;
        begins = claim(count);
    } else {
        count = own();
        begins = count == NULL;
        if (begins && (count = claim_any()) == NULL)
            return -ENOSPC;
    }
    __atomic_store_n(&count->at, 0, __ATOMIC_RELAXED);
    if (begins)
        hf_watch_hold(true);
    __atomic_store_n(&count->onwards, (flags & HF_FAIL_ONWARDS) != 0, __ATOMIC_RELAXED);
    __atomic_store_n(&count->failed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&count->calls, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&count->at, call, __ATOMIC_RELEASE);
    return 0;
}

/* The count that the flags ask for, and whether the arguments are right. */
static int find(unsigned flags, const struct hf_fail_counts *out, struct count **found)
{
    if ((flags & ~HF_FAIL_PROCESS) != 0 ||
        (out != NULL && out->size < offsetof(struct hf_fail_counts, failed)))
        return -EINVAL;
    *found = flags == 0 ? own() : !belongs_to(&process, 0) ? &process : NULL;
    return *found != NULL ? 0 : -EALREADY;
}

static void tell(const struct count *count, struct hf_fail_counts *out)
{
    const struct hf_fail_counts counts = {
        .calls = __atomic_load_n(&count->calls, __ATOMIC_RELAXED),
        .failed = __atomic_load_n(&count->failed, __ATOMIC_RELAXED),
    };
    hf_sized_copy(out, &counts, sizeof counts);
}

int hf_fail_count_here(unsigned flags, struct hf_fail_counts *out)
{
    struct count *count;
    if (out == NULL)
        return -EINVAL;
    const int error = find(flags, out, &count);
    if (error == 0)
        tell(count, out);
    return error;
}

int hf_fail_end_here(unsigned flags, struct hf_fail_counts *out)
{
    struct count *count;
    const int error = find(flags, out, &count);
    if (error != 0)
        return error;
    if (out != NULL)
        tell(count, out);
    /* Two threads may end the process's count at once. */
    if (__atomic_exchange_n(&count->owner, 0, __ATOMIC_ACQ_REL) == 0)
        return -EALREADY;
    hf_watch_hold(false);
    return 0;
}
