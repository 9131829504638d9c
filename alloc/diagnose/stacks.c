/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the table of deep sites: a slot's place is its number. Slots are filled under the records'
 * lock, read without, and never emptied. See stacks.h.
 */
#include "alloc/diagnose/stacks.h"

#include "alloc/base/dynlink.h"
#include "alloc/diagnose/interpreter_sites.h"
#include "alloc/diagnose/python_stack.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/unwind.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum {
    PROBES = 32,
    /* After so many stacks of a site, one allocation in SELDOM takes one; with each STEP more, the
     * next ones are twice as far apart. */
    OFTEN = 256,
    SELDOM = 64,
    STEP = 64,
    STEPS = 10,
    WANTED_MAX = 16,
    TEXTS = 1024,
    GONE = 1 /* no stack's key */
};

static struct deep_site {
    uint64_t key; /* a hash of the rest; 0: free */
    uint64_t python;
    uint32_t base, stack;
} deep_sites[HF_DEEP_SITES_ROOM];
static _Atomic(uint32_t) taken[HF_SITES_ROOM]; /* stacks of each deep site */
static uint8_t wanted[HF_SITES_ROOM];          /* how often a finding lacked a stack */
static atomic_bool full;

/* ---- Python frames ---- */

/* Files and functions that were recorded, by their text. */
static struct {
    const char *text; /* in the records' memory */
    uint32_t string;
} texts[TEXTS];

/* What a record refers to a text by; 0: none, or no room. Under the lock. */
static uint32_t record_text(const char *text)
{
    uint32_t hash = 0;
    if (text[0] == '\0')
        return 0;
    for (const char *at = text; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * 0x01000193;
    const size_t place = (hash ^ hash >> 16) % TEXTS;
    if (texts[place].text == NULL || strcmp(texts[place].text, text) != 0)
        texts[place].string = hf_report_string(text, strlen(text), &texts[place].text);
    return texts[place].string;
}

/* Under the lock. */
static void record_lines(const struct hf_python_frame *frames, size_t count,
                         struct hf_report_line *out)
{
    static struct hf_python_place place;
    for (size_t i = 0; i < count; i++) {
        hf_python_stack_describe(&frames[i], &place);
        out[i].file = record_text(place.file);
        out[i].function = record_text(place.function);
        out[i].line = place.line;
    }
}

/* ---- stacks ---- */

static uint32_t record(const void *const *frames, size_t count,
                       const struct hf_python_frame *python, size_t depth)
{
    struct hf_report_line lines[HF_PYTHON_FRAMES_MAX] = {0};
    uint32_t objects[HF_UNWIND_MAX], position;
    if (count == 0 || count > HF_UNWIND_MAX)
        return 0;
    const size_t size = sizeof(struct hf_report_stack) + count * sizeof(struct hf_report_frame) +
                        depth * sizeof(struct hf_report_line);
    record_lines(python, depth, lines); /* before the record: strings are records, too */
    for (size_t i = 0; i < count; i++) /* before a call that may be a function's last instruction */
        objects[i] = hf_site_object_number(hf_dynlink_find_fast((const char *)frames[i] - 1));
    if (!hf_report_holds_stack(size)) {
        atomic_store(&full, true);
        return 0;
    }
    struct hf_report_stack *stack = hf_report_add(HF_REPORT_STACKS, size, &position);
    if (stack == NULL)
        return 0;
    struct hf_report_frame *out = (struct hf_report_frame *)(stack + 1);
    stack->native = (uint16_t)count;
    stack->python = (uint16_t)depth;
    for (size_t i = 0; i < count; i++)
        out[i] = (struct hf_report_frame){(uintptr_t)frames[i], objects[i], 0};
    memcpy(out + count, lines, depth * sizeof lines[0]);
    hf_report_publish(HF_REPORT_STACKS, size);
    return position + 1;
}

uint32_t hf_stack_record(const void *const *frames, size_t count)
{
    return record(frames, count, NULL, 0);
}

uint32_t hf_stack_record_here(const void *const *frames, size_t count)
{
    struct hf_python_frame python[HF_PYTHON_FRAMES_MAX];
    return record(frames, count, python, hf_python_stack_take(python));
}

/* ---- deep sites ---- */

static uint64_t key_of(uint32_t base, const void *const *frames, size_t count)
{
    struct hf_python_frame python[HF_PYTHON_FRAMES_MAX];
    const size_t depth = hf_python_stack_take(python);
    uint64_t key = base;
    for (size_t i = 0; i < count; i++)
        key = hf_stack_mix(key, (uintptr_t)frames[i]);
    for (size_t i = 0; i < depth; i++)
        key = hf_stack_mix(hf_stack_mix(key, (uintptr_t)python[i].code),
                           (uint64_t)python[i].position);
    return key > GONE ? key : GONE + 1;
}

/* Where a key is, or the first free place. NULL: no room nearby. */
static struct deep_site *find_place(uint64_t key)
{
    for (size_t i = 0; i < PROBES; i++) {
        struct deep_site *place = &deep_sites[(key + i) & (HF_DEEP_SITES_ROOM - 1)];
        const uint64_t there = __atomic_load_n(&place->key, __ATOMIC_ACQUIRE);
        if (there == key || there == 0)
            return place;
    }
    return NULL;
}

/* Under the lock. */
static void fill(struct deep_site *place, uint64_t key, uint32_t base, const void *const *frames,
                 size_t count)
{
    place->stack = hf_stack_record_here(frames, count);
    if (place->stack == 0)
        return;
    place->base = base;
    place->python = hf_recorded_sites[base].for_python ? hf_python_stack_here() : 0;
    hf_recorded_sites[HF_SITES_ROOM + (place - deep_sites)] = hf_recorded_sites[base];
    __atomic_store_n(&place->key, key, __ATOMIC_RELEASE);
}

/* How many allocations need no stack after one. */
static uint32_t pause_after(uint32_t before)
{
    const uint32_t steps = before >= OFTEN ? (before - OFTEN) / STEP : 0;
    return before >= OFTEN ? (uint32_t)SELDOM << (steps < STEPS ? steps : STEPS) : 0;
}

uint32_t hf_stack_site(uint32_t site, uint32_t *without)
{
    const void *frames[HF_UNWIND_MAX];
    const bool is_full = atomic_load_explicit(&full, memory_order_relaxed);
    const uint32_t before = atomic_fetch_add_explicit(&taken[site], 1, memory_order_relaxed);
    *without = is_full ? UINT32_MAX : hf_recorded_sites[site].for_python ? 0 : pause_after(before);
    if (is_full)
        return site;
    const size_t count = hf_unwind(hf_recorded_sites[site].address, frames, HF_UNWIND_MAX);
    const uint64_t key = key_of(site, frames, count);
    struct deep_site *place = count != 0 ? find_place(key) : NULL;
    if (place != NULL && __atomic_load_n(&place->key, __ATOMIC_ACQUIRE) != key) {
        if (!hf_report_lock())
            return site;
        place = find_place(key);
        if (place != NULL && place->key == 0)
            fill(place, key, site, frames, count);
        hf_report_unlock();
    }
    if (place == NULL || __atomic_load_n(&place->key, __ATOMIC_ACQUIRE) != key)
        return site;
    return HF_SITES_ROOM + (uint32_t)(place - deep_sites);
}

bool hf_stack_wanted(uint32_t site)
{
    if (site == 0 || site >= HF_SITES_ROOM || wanted[site] == WANTED_MAX)
        return false;
    wanted[site]++;
    atomic_store_explicit(&taken[site], 0, memory_order_relaxed);
    return true;
}

static const struct deep_site *deep_site(uint32_t number)
{
    number = hf_interpreter_site_base(number);
    return number >= HF_SITES_ROOM && number < HF_INTERPRETER_SITES_FIRST
               ? &deep_sites[number - HF_SITES_ROOM]
               : NULL;
}

uint32_t hf_stack_base(uint32_t number)
{
    const struct deep_site *deep = deep_site(number);
    return deep != NULL ? deep->base : hf_interpreter_site_base(number);
}

uint32_t hf_stack_of_site(uint32_t number)
{
    const struct deep_site *deep = deep_site(number);
    return deep != NULL ? deep->stack : 0;
}

uint64_t hf_stack_python(uint32_t number)
{
    const struct deep_site *deep = deep_site(number);
    return deep != NULL ? deep->python : 0;
}

void hf_stacks_unloaded(void)
{
    if (!hf_report_lock())
        return;
    for (size_t i = 0; i < HF_DEEP_SITES_ROOM; i++)
        if (deep_sites[i].key != 0)
            __atomic_store_n(&deep_sites[i].key, GONE, __ATOMIC_RELEASE);
    hf_report_unlock();
}
