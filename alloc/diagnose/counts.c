/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the tables of pairs: the list of all tables, and which are free. The list only grows; a
 * table is given out and taken back under the records' lock. See counts.h.
 *
 * A pair lies at its hash or in one of the places behind it, as far as PROBES reaches.
 */
#include "alloc/diagnose/counts.h"

#include "alloc/diagnose/recent.h"
#include "alloc/diagnose/report_file.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* A process with hundreds of objects has thousands of pairs. */
enum { TABLES_MAX = 8192, PROBES = 32, OWN_MAX = 32 };

/* The calling thread's tables, by number, in use from the first on once the one before has no room;
 * none until its first event. And its number among all threads. */
static __thread uint16_t own[OWN_MAX];
static __thread uint64_t serial;
/* The thread ended, or no table is left: it counts in the shared table. */
static __thread bool without_table;

static struct hf_counts *tables[TABLES_MAX];
static bool taken[TABLES_MAX];
static uint32_t table_count;
static struct hf_counts *shared; /* the first table */
static _Atomic(uint64_t) serials;
static pthread_key_t at_thread_end;
static bool has_key;

/* A new table in the file; NULL if there is no room. Under the lock. */
static struct hf_counts *make_table(void)
{
    if (table_count == TABLES_MAX)
        return NULL;
    struct hf_counts *table = hf_report_add(HF_REPORT_PAIRS, sizeof *table, NULL);
    if (table == NULL)
        return NULL;
    hf_report_publish(HF_REPORT_PAIRS, sizeof *table);
    tables[table_count] = table;
    taken[table_count++] = true;
    return table;
}

/* A table for the calling thread; 0: there is no room. Under the lock. */
static uint16_t take_table(void)
{
    uint32_t i = 1;
    while (i < table_count && taken[i])
        i++;
    if (i >= table_count && make_table() == NULL)
        return 0;
    taken[i] = true;
    return (uint16_t)i;
}

static void give_back(void *unused)
{
    (void)unused;
    without_table = true;
    hf_recent_end();
    if (hf_report_lock()) {
        for (size_t i = 0; i < OWN_MAX && own[i] != 0; i++)
            taken[own[i]] = false;
        hf_report_unlock();
    }
    memset(own, 0, sizeof own);
}

/* Gives the calling thread a table. */
static void begin_thread(void)
{
    if (without_table || hf_report_header() == NULL || !hf_report_lock())
        return;
    if (shared == NULL)
        shared = make_table();
    own[0] = shared != NULL ? take_table() : 0;
    if (own[0] != 0)
        hf_recent_begin(own[0]);
    hf_report_unlock();
    without_table = own[0] == 0;
    serial = atomic_fetch_add(&serials, 1) + 1;
    if (own[0] != 0 && has_key)
        (void)pthread_setspecific(at_thread_end, own);
}

/* The place of a pair in a table, found or new; NULL if there is no room. */
static struct hf_report_pair *find_pair(struct hf_counts *table, uint16_t allocated, uint16_t freed)
{
    size_t at = (allocated * 31U + freed) % HF_COUNTS_ROOM;
    for (int i = 0; i < PROBES; i++, at = (at + 1) % HF_COUNTS_ROOM) {
        struct hf_report_pair *pair = &table->pairs[at];
        if (pair->threads == 0 || (pair->allocated == allocated && pair->freed == freed))
            return pair;
    }
    return NULL;
}

/* The place of a pair in one of the thread's tables; NULL if there is no room. */
static struct hf_report_pair *find_own(uint16_t allocated, uint16_t freed)
{
    struct hf_report_pair *pair = NULL;
    for (size_t i = 0; i < OWN_MAX && pair == NULL && own[0] != 0; i++) {
        if (own[i] == 0 && hf_report_lock()) {
            own[i] = take_table();
            hf_report_unlock();
        }
        if (own[i] == 0)
            break;
        pair = find_pair(tables[own[i]], allocated, freed);
    }
    return pair;
}

static void count_own(struct hf_report_pair *pair, uint16_t allocated, uint16_t freed, size_t bytes)
{
    if (pair->serial != serial) {
        pair->allocated = allocated;
        pair->freed = freed;
        pair->serial = serial;
        __atomic_store_n(&pair->threads, pair->threads + 1, __ATOMIC_RELEASE);
    }
    hf_count_again(pair, bytes);
}

static void count_shared(uint16_t allocated, uint16_t freed, size_t bytes)
{
    struct hf_report_pair *pair = NULL;
    if (shared != NULL && hf_report_lock()) {
        pair = find_pair(shared, allocated, freed);
        if (pair != NULL && pair->threads == 0) {
            pair->allocated = allocated;
            pair->freed = freed;
            __atomic_store_n(&pair->threads, 1, __ATOMIC_RELEASE);
        }
        hf_report_unlock();
    }
    if (pair == NULL) {
        hf_report_drop();
        return;
    }
    __atomic_add_fetch(&pair->blocks, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&pair->bytes, bytes, __ATOMIC_RELAXED);
}

struct hf_report_pair *hf_count(uint16_t allocated, uint16_t freed, size_t bytes)
{
    if (own[0] == 0)
        begin_thread();
    struct hf_report_pair *pair = find_own(allocated, freed);
    if (pair != NULL)
        count_own(pair, allocated, freed, bytes);
    else
        count_shared(allocated, freed, bytes);
    return pair;
}

void hf_counts_start(void)
{
    has_key = pthread_key_create(&at_thread_end, give_back) == 0;
    if (has_key && own[0] != 0)
        (void)pthread_setspecific(at_thread_end, own);
}

void hf_counts_in_child(void)
{
    for (uint32_t i = 0; i < table_count; i++) {
        memset(tables[i], 0, sizeof *tables[i]);
        taken[i] = i == 0;
    }
    for (size_t i = 0; i < OWN_MAX && own[i] != 0; i++)
        taken[own[i]] = true;
    if (own[0] != 0)
        hf_recent_begin(own[0]);
    serial = atomic_fetch_add(&serials, 1) + 1;
}

void hf_counts_total(uint64_t *blocks, uint64_t *bytes)
{
    *blocks = *bytes = 0;
    for (uint32_t i = 0; i < __atomic_load_n(&table_count, __ATOMIC_RELAXED); i++)
        for (size_t j = 0; j < HF_COUNTS_ROOM; j++) {
            const struct hf_report_pair *pair = &tables[i]->pairs[j];
            if (pair->threads != 0 && pair->freed == HF_REPORT_ALLOCATED) {
                *blocks += pair->blocks;
                *bytes += pair->bytes;
            }
        }
}

uint32_t hf_counts_live(int64_t bytes[HF_COUNTS_OBJECTS])
{
    uint32_t objects = 0;
    for (uint32_t i = 0; i < __atomic_load_n(&table_count, __ATOMIC_ACQUIRE); i++)
        for (size_t j = 0; j < HF_COUNTS_ROOM; j++) {
            const struct hf_report_pair *pair = &tables[i]->pairs[j];
            if (__atomic_load_n(&pair->threads, __ATOMIC_ACQUIRE) == 0 ||
                pair->allocated >= HF_COUNTS_OBJECTS)
                continue;
            const int64_t size = (int64_t)__atomic_load_n(&pair->bytes, __ATOMIC_RELAXED);
            bytes[pair->allocated] += pair->freed == HF_REPORT_ALLOCATED ? size : -size;
            objects = pair->allocated >= objects ? pair->allocated + 1U : objects;
        }
    return objects;
}
