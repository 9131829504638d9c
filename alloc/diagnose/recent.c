/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the tables' memory: several tables at a time are mapped, and stay. See recent.h.
 */
#include "alloc/diagnose/recent.h"

#include "alloc/heap/internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

enum { POOL = 16, POOLS = 128 };

static struct hf_recent none[HF_RECENT_ROOM];
__thread struct hf_recent *hf_recent_own = none;

static struct hf_recent *pools[POOLS];
static bool used[POOL * POOLS]; /* a fresh table is empty, and its pages cost nothing yet */

static size_t size_of(size_t tables)
{
    return tables * sizeof(struct hf_recent[HF_RECENT_ROOM]);
}

/* NULL if there is no memory or no number left. */
static struct hf_recent *table_at(uint32_t number)
{
    if (number >= POOL * POOLS)
        return NULL;
    struct hf_recent **pool = &pools[number / POOL];
    if (*pool == NULL) {
        int saved_errno = errno;
        void *memory = mmap(NULL, size_of(POOL), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        errno = saved_errno;
        if (memory == MAP_FAILED)
            return NULL;
        *pool = memory;
    }
    return *pool + (size_t)HF_RECENT_ROOM * (number % POOL);
}

void hf_recent_begin(uint32_t number)
{
    struct hf_recent *table = table_at(number);
    hf_recent_own = none;
    if (table == NULL)
        return;
    if (used[number])
        memset(table, 0, size_of(1));
    used[number] = true;
    hf_recent_own = table;
}

void hf_recent_end(void)
{
    hf_recent_own = none;
}

/* ---- remembering ---- */

static void forget(struct hf_recent *recent)
{
    __atomic_store_n(&recent->key, 0, __ATOMIC_RELAXED);
}

static void forget_allocation(struct hf_recent *table, struct hf_call_site call)
{
    const uint64_t key = hf_recent_key(call, HF_RECENT_ALLOCATION);
    struct hf_recent *first = hf_recent_first(table, call.caller, 0);
    for (size_t place = 0; place < HF_RECENT_ROOM; place += HF_RECENT_SECOND)
        if (hf_recent_is(&first[place], key))
            forget(&first[place]);
}

/* A signal handler sees a whole entry or none. */
static void store(struct hf_recent *to, const struct hf_recent *from)
{
    forget(to);
    atomic_signal_fence(memory_order_seq_cst);
    to->base = from->base;
    to->freed = from->freed;
    to->pair = from->pair;
    atomic_signal_fence(memory_order_seq_cst);
    __atomic_store_n(&to->key, __atomic_load_n(&from->key, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* Changes whenever calls are forgotten, and is odd meanwhile. */
static _Atomic(uint32_t) forgetting;

/* Stores calls in both places, unless calls are being forgotten. */
static void set_places(struct hf_recent *first, struct hf_recent in_first,
                       struct hf_recent in_second, uint32_t before)
{
    store(first + HF_RECENT_SECOND, &in_second);
    store(first, &in_first);
    atomic_thread_fence(memory_order_seq_cst);
    if (HF_UNLIKELY(atomic_load(&forgetting) != before)) {
        forget(first);
        forget(first + HF_RECENT_SECOND);
    }
}

static void remember(struct hf_recent *first, struct hf_recent recent)
{
    const uint32_t before = atomic_load(&forgetting);
    if (hf_recent_own == none || before % 2 != 0)
        return;
    if (hf_recent_is(first, 0))
        set_places(first, recent, first[HF_RECENT_SECOND], before);
    else
        set_places(first, *first, recent, before);
}

void hf_recent_swap(struct hf_recent *second)
{
    const uint32_t before = atomic_load(&forgetting);
    if (before % 2 == 0)
        set_places(second - HF_RECENT_SECOND, *second, second[-HF_RECENT_SECOND], before);
}

void hf_recent_allocated(struct hf_call_site call, uint32_t site, enum hf_block_kind kind,
                         struct hf_report_pair *pair)
{
    remember(hf_recent_first(hf_recent_own, call.caller, 0),
             (struct hf_recent){.key = hf_recent_key(call, HF_RECENT_ALLOCATION),
                                .base = hf_footer_base(site, kind),
                                .pair = pair});
}

void hf_recent_allocated_for(struct hf_call_site call, uint32_t site, enum hf_block_kind kind,
                             struct hf_report_pair *pair, uint64_t uses)
{
    struct hf_recent *first = hf_recent_first(hf_recent_own, call.caller, 0);
    const struct hf_recent recent = {.key = hf_recent_key(call, HF_RECENT_ALLOCATION),
                                     .base = hf_footer_base(site, kind),
                                     .freed = uses,
                                     .pair = pair};
    if (hf_recent_own != none)
        store(first + HF_RECENT_SECOND, &recent);
}

void hf_recent_take_back(struct hf_call_site call)
{
    forget_allocation(hf_recent_own, call);
}

void hf_recent_forget_own(void)
{
    for (size_t i = 0; i < HF_RECENT_ROOM && hf_recent_own != none; i++)
        if (!hf_recent_is(&hf_recent_own[i], 0) && (hf_recent_own[i].key & HF_RECENT_FREE) == 0)
            forget(&hf_recent_own[i]);
}

void hf_recent_freed(struct hf_call_site call, uint32_t site, enum hf_block_kind kind,
                     uint32_t freed_site, struct hf_report_pair *pair)
{
    const uint64_t identity = hf_footer_identity_of(site, kind);
    remember(hf_recent_first(hf_recent_own, call.caller, identity),
             (struct hf_recent){.key = hf_recent_key(call, HF_RECENT_FREE),
                                .base = identity,
                                .freed = hf_footer_freed(site, freed_site),
                                .pair = pair});
}

/* ---- forgetting ---- */

void hf_recent_forget(struct hf_call_site call)
{
    atomic_fetch_add(&forgetting, 1);
    for (size_t i = 0; i < POOLS; i++)
        for (size_t j = 0; j < POOL && pools[i] != NULL; j++)
            forget_allocation(pools[i] + j * HF_RECENT_ROOM, call);
    atomic_fetch_add(&forgetting, 1);
}

void hf_recent_forget_all(void)
{
    atomic_fetch_add(&forgetting, 1);
    for (size_t i = 0; i < POOLS; i++)
        for (size_t j = 0; j < (size_t)POOL * HF_RECENT_ROOM && pools[i] != NULL; j++)
            if (!hf_recent_is(&pools[i][j], 0))
                forget(&pools[i][j]);
    atomic_fetch_add(&forgetting, 1);
}
