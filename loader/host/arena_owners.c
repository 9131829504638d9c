/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table: open addressing by the arena's address, changed under `lock`. An entry's owner is
 * written before its arena, so whoever finds an arena finds its owner. A removed entry stays in
 * place for lookups to pass over, and is used again.
 */
#include "loader/host/arena_owners.h"

#include "alloc/base/apart.h"
#include "alloc/base/fork_lock.h"

#include <pthread.h>
#include <stdatomic.h>

#define ENTRIES 16384 /* arenas of 1 MiB: 16 GiB of small objects */
#define REMOVED 1     /* no arena's address */

static struct {
    _Atomic uintptr_t arena; /* 0: never used */
    _Atomic int64_t owner;
} entries[ENTRIES] HF_APART;
static atomic_size_t ended; /* how many are nobody's */
static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;

static size_t first_place(uintptr_t arena)
{
    return (size_t)((arena >> 18) * UINT64_C(0x9e3779b97f4a7c15) >> 50);
}

/* The entry of an arena, or ENTRIES. */
static size_t place_of(uintptr_t arena)
{
    for (size_t step = 0, at = first_place(arena); step < ENTRIES;
         step++, at = (at + 1) % ENTRIES) {
        const uintptr_t there = atomic_load_explicit(&entries[at].arena, memory_order_acquire);
        if (there == arena)
            return at;
        if (there == 0)
            break;
    }
    return ENTRIES;
}

void hf_arena_owners_add(const void *arena, int64_t interpreter)
{
    pthread_mutex_lock(&lock);
    size_t at = first_place((uintptr_t)arena), step = 0;
    while (step < ENTRIES &&
           atomic_load_explicit(&entries[at].arena, memory_order_relaxed) > REMOVED) {
        at = (at + 1) % ENTRIES;
        step++;
    }
    if (step < ENTRIES) {
        atomic_store_explicit(&entries[at].owner, interpreter, memory_order_relaxed);
        atomic_store_explicit(&entries[at].arena, (uintptr_t)arena, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void hf_arena_owners_remove(const void *arena)
{
    pthread_mutex_lock(&lock);
    const size_t at = place_of((uintptr_t)arena);
    if (at < ENTRIES)
        atomic_store_explicit(&entries[at].arena, REMOVED, memory_order_release);
    pthread_mutex_unlock(&lock);
}

void hf_arena_owners_end(const void *arena)
{
    pthread_mutex_lock(&lock);
    const size_t at = place_of((uintptr_t)arena);
    if (at < ENTRIES) {
        atomic_store_explicit(&entries[at].owner, HF_ENDED_INTERPRETER, memory_order_relaxed);
        atomic_fetch_add(&ended, 1);
    }
    pthread_mutex_unlock(&lock);
}

void *hf_arena_owners_reuse(int64_t interpreter)
{
    size_t position = 0;
    if (atomic_load(&ended) == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    void *arena = hf_arena_owners_next(HF_ENDED_INTERPRETER, &position);
    if (arena != NULL) {
        atomic_store_explicit(&entries[position - 1].owner, interpreter, memory_order_relaxed);
        atomic_fetch_sub(&ended, 1);
    }
    pthread_mutex_unlock(&lock);
    return arena;
}

int64_t hf_arena_owners_find(const void *arena)
{
    const size_t at = place_of((uintptr_t)arena);
    return at < ENTRIES ? atomic_load_explicit(&entries[at].owner, memory_order_relaxed)
                        : HF_NO_INTERPRETER;
}

void *hf_arena_owners_next(int64_t interpreter, size_t *position)
{
    while (*position < ENTRIES) {
        const size_t at = (*position)++;
        const uintptr_t arena = atomic_load_explicit(&entries[at].arena, memory_order_acquire);
        if (arena > REMOVED &&
            atomic_load_explicit(&entries[at].owner, memory_order_relaxed) == interpreter)
            return (void *)arena;
    }
    return NULL;
}

void hf_arena_owners_each(void (*visit)(void *context, const void *arena, int64_t interpreter),
                          void *context)
{
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < ENTRIES; at++) {
        const uintptr_t arena = atomic_load_explicit(&entries[at].arena, memory_order_acquire);
        const int64_t owner = atomic_load_explicit(&entries[at].owner, memory_order_relaxed);
        if (arena > REMOVED && owner >= 0)
            visit(context, (const void *)arena, owner);
    }
    pthread_mutex_unlock(&lock);
}
