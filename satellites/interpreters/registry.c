/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the list of interpreters, its lock, and the counts of all that were ever made. What is
 * listed has not ended; an entry is changed under its own lock.
 */
#include "satellites/interpreters/registry.h"

#include "alloc/base/fork_lock.h"

#include <string.h>

static pthread_mutex_t HF_FORK_LOCK lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t HF_FORK_LOCK end_lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards nothing: for sleeping */
static pthread_cond_t one_ended;
static struct hf_interpreter *listed; /* guarded by `lock` */
static struct hf_interpreter main_interpreter;
static bool main_is_prepared; /* guarded by `lock` */
static atomic_uint generation;
static atomic_uint_fast64_t made, counts[HF_INTERPRETER_ENDED + 1];
static void (*also_in_child)(void);

unsigned hf_registry_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void prepare_main(void)
{
    if (main_is_prepared)
        return;
    hf_interpreter_prepare(&main_interpreter);
    main_interpreter.id = 0;
    main_is_prepared = true;
}

struct hf_interpreter *hf_registry_main(void)
{
    pthread_mutex_lock(&lock);
    prepare_main();
    pthread_mutex_unlock(&lock);
    return &main_interpreter;
}

void hf_registry_add(struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&lock);
    interpreter->next_listed = listed;
    listed = interpreter;
    pthread_mutex_unlock(&lock);
}

/* The caller holds the lock. */
static void unlist(const struct hf_interpreter *interpreter)
{
    struct hf_interpreter **at = &listed;
    while (*at != NULL && *at != interpreter)
        at = &(*at)->next_listed;
    if (*at != NULL)
        *at = interpreter->next_listed;
}

bool hf_registry_remove(struct hf_interpreter *interpreter)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&interpreter->lock);
    const bool can = !interpreter->is_lost && atomic_load(&interpreter->sessions) == 0 &&
                     (interpreter->held == 0 || interpreter->forsaken) &&
                     interpreter->head == NULL && interpreter->helpers == 0;
    if (can) {
        interpreter->finishing = true;
        unlist(interpreter);
    }
    pthread_mutex_unlock(&interpreter->lock);
    pthread_mutex_unlock(&lock);
    return can;
}

struct hf_interpreter *hf_registry_lock(int64_t id)
{
    pthread_mutex_lock(&lock);
    prepare_main();
    struct hf_interpreter *found = id == 0 ? &main_interpreter : listed;
    while (id != 0 && found != NULL && found->id != id)
        found = found->next_listed;
    if (found != NULL)
        pthread_mutex_lock(&found->lock);
    pthread_mutex_unlock(&lock);
    return found;
}

bool hf_registry_try_find(int64_t id, unsigned *index, unsigned *count)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    const struct hf_interpreter *found = listed;
    while (found != NULL && found->id != id)
        found = found->next_listed;
    const bool known = found != NULL && found->group != NULL;
    if (known) {
        *index = found->index;
        *count = found->group->count;
    }
    pthread_mutex_unlock(&lock);
    return known;
}

size_t hf_registry_list(struct hf_interpreter_memory *rows, size_t most)
{
    size_t count = 0;
    if (count < most)
        rows[count] = (struct hf_interpreter_memory){.size = sizeof *rows};
    count++;
    pthread_mutex_lock(&lock);
    for (const struct hf_interpreter *at = listed; at != NULL; at = at->next_listed) {
        if (at->id == 0) /* HF_ENGINE_THREADS */
            continue;
        if (count < most)
            rows[count] = (struct hf_interpreter_memory){
                .size = sizeof *rows,
                .id = at->id,
                .index = at->index,
                .count = at->group != NULL ? at->group->count : 0,
            };
        count++;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

void hf_registry_count(enum hf_interpreter_state from, enum hf_interpreter_state to)
{
    if (from == 0)
        atomic_fetch_add(&made, 1);
    else
        atomic_fetch_sub(&counts[from], 1);
    atomic_fetch_add(&counts[to], 1);
    if (to != HF_INTERPRETER_ENDED)
        return;
    pthread_mutex_lock(&end_lock);
    pthread_cond_broadcast(&one_ended);
    pthread_mutex_unlock(&end_lock);
}

bool hf_registry_add_once(struct hf_interpreter *guest)
{
    pthread_mutex_lock(&lock);
    const struct hf_interpreter *found = listed;
    while (found != NULL && found->id != guest->id)
        found = found->next_listed;
    if (found == NULL) {
        guest->next_listed = listed;
        listed = guest;
    }
    pthread_mutex_unlock(&lock);
    return found == NULL;
}

void hf_registry_drop(struct hf_interpreter *guest)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&guest->lock); /* whoever found it is done with it */
    unlist(guest);
    pthread_mutex_unlock(&guest->lock);
    pthread_mutex_unlock(&lock);
}

void hf_registry_each(void (*visit)(struct hf_interpreter *interpreter))
{
    pthread_mutex_lock(&lock);
    for (struct hf_interpreter *at = listed, *next; at != NULL; at = next) {
        next = at->next_listed;
        if (at->group != NULL)
            visit(at);
    }
    pthread_mutex_unlock(&lock);
}

bool hf_registry_wait(const struct timespec *deadline)
{
    bool in_time = true, done;
    pthread_mutex_lock(&end_lock);
    while (!(done = atomic_load(&made) == atomic_load(&counts[HF_INTERPRETER_ENDED])) && in_time)
        in_time = hf_wait(&one_ended, &end_lock, deadline);
    pthread_mutex_unlock(&end_lock);
    return done;
}

void hf_registry_totals(struct hf_interpreters_counts *out)
{
    out->made = atomic_load(&made);
    out->ended = atomic_load(&counts[HF_INTERPRETER_ENDED]);
    out->running = (unsigned)(atomic_load(&counts[HF_INTERPRETER_RUNNING]) +
                              atomic_load(&counts[HF_INTERPRETER_ENDING]));
    out->parked = (unsigned)atomic_load(&counts[HF_INTERPRETER_PARKED]);
    out->hung = (unsigned)atomic_load(&counts[HF_INTERPRETER_HUNG]);
}

/* The parent's entries are left alone: their locks may be held by threads that are gone. */
static void in_child(void)
{
    if (atomic_load(&made) == 0 && !main_is_prepared)
        return; /* nothing to write to */
    hf_condition_prepare(&one_ended);
    listed = NULL;
    memset(&main_interpreter, 0, sizeof main_interpreter);
    main_is_prepared = false;
    made = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        counts[i] = 0;
    atomic_fetch_add(&generation, 1);
    also_in_child();
}

void hf_registry_start(void (*in_child_too)(void))
{
    also_in_child = in_child_too;
    hf_condition_prepare(&one_ended);
    pthread_atfork(NULL, NULL, in_child);
}
