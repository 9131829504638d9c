/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See interpreter_sites.h. A slot's place is its number; it is filled under the records' lock, read
 * without, and never emptied.
 */
#include "alloc/diagnose/interpreter_sites.h"

#include "alloc/diagnose/recent.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"

#include <stdbool.h>
#include <stddef.h>

enum { PROBES = 32 };

__thread uint32_t hf_interpreter_now;

/* The interpreter and the site; 0: free. */
static uint64_t keys[HF_INTERPRETER_SITES_ROOM];

void hf_interpreter_sites_move(uint32_t interpreter)
{
    if (interpreter == hf_interpreter_now)
        return;
    hf_interpreter_now = interpreter;
    hf_recent_forget_own(); /* the thread remembers numbers */
}

/* Where a key is, or the first free place. NULL: no room nearby. */
static uint64_t *find_place(uint64_t key)
{
    const size_t first = (size_t)(key * 0x9e3779b97f4a7c15 >> 40);
    for (size_t i = 0; i < PROBES; i++) {
        uint64_t *place = &keys[(first + i) & (HF_INTERPRETER_SITES_ROOM - 1)];
        const uint64_t there = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (there == key || there == 0)
            return place;
    }
    return NULL;
}

static uint32_t number_of(const uint64_t *place)
{
    return HF_INTERPRETER_SITES_FIRST + (uint32_t)(place - keys);
}

uint32_t hf_interpreter_site(uint32_t number)
{
    const uint64_t key = (uint64_t)hf_interpreter_now << 32 | number;
    if (hf_interpreter_now == 0 || number == 0)
        return number;
    uint64_t *place = find_place(key);
    if (place != NULL && __atomic_load_n(place, __ATOMIC_ACQUIRE) == key)
        return number_of(place);
    if (place == NULL || !hf_site_is_module(number) || !hf_report_lock())
        return number;
    place = find_place(key);
    if (place != NULL && *place == 0) {
        hf_recorded_sites[number_of(place)] = hf_recorded_sites[number];
        __atomic_store_n(place, key, __ATOMIC_RELEASE);
    }
    hf_report_unlock();
    return place != NULL ? number_of(place) : number;
}

/* 0: the number is no interpreter's. */
static uint64_t key_of(uint32_t number)
{
    return number >= HF_INTERPRETER_SITES_FIRST && number < HF_SITE_NUMBERS
               ? __atomic_load_n(&keys[number - HF_INTERPRETER_SITES_FIRST], __ATOMIC_ACQUIRE)
               : 0;
}

uint32_t hf_interpreter_of_site(uint32_t number)
{
    return (uint32_t)(key_of(number) >> 32);
}

uint32_t hf_interpreter_site_base(uint32_t number)
{
    const uint64_t key = key_of(number);
    return key != 0 ? (uint32_t)key : number;
}
