/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owns the list of findings and the counts by severity. Findings are added under the records' lock
 * and never removed, but in a forked child. See findings.h.
 */
#include "alloc/diagnose/findings.h"

#include "alloc/base/fatal.h"
#include "alloc/diagnose/python_stack.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/diagnose/suppressions.h"
#include "alloc/diagnose/unwind.h"
#include "alloc/heap/fork_gate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { FINDINGS_MAX = 1 << 14, PLACES = 2 * FINDINGS_MAX, ALLOCATORS_MAX = 256 };

struct hf_diagnose hf_diagnose = {.mode = HF_REPORT_REPORT};

static struct hf_report_finding *findings[FINDINGS_MAX];
static uint32_t finding_count;
static uint64_t keys[FINDINGS_MAX]; /* what makes each one */
static uint16_t places[PLACES];     /* 1 + number of the finding, at its key; 0: free */
static struct {
    const char *name, *object;
} allocators[ALLOCATORS_MAX];
static uint32_t allocator_count;
static _Atomic(uint64_t) by_severity[HF_REPORT_ERROR + 1];

static const struct rule {
    const char *name;
    enum hf_report_severity severity;
    const char *explanation, *remedy;
} rules[HF_FAULT_COUNT] = {
#define HF_REPORT_RULE(ID, name, severity, explanation, without, remedy) \
    {name, HF_REPORT_##severity, explanation, remedy},
#include "alloc/diagnose/report_rules.def"
};

uint64_t hf_findings_count(enum hf_report_severity severity)
{
    return atomic_load(&by_severity[severity]);
}

/* ---- recording ---- */

/* 1 + the number of an allocator in the file; 0 if it is unknown. Under the lock. The strings are
 * static or belong to objects that stay loaded, so their addresses identify them. */
static uint32_t number_allocator(const struct hf_event *event)
{
    if (event->allocator == NULL)
        return 0;
    for (uint32_t i = 0; i < allocator_count; i++)
        if (allocators[i].name == event->allocator &&
            allocators[i].object == event->allocator_object)
            return i + 1;
    if (allocator_count == ALLOCATORS_MAX)
        return 0;
    uint32_t name = hf_report_string(event->allocator, strlen(event->allocator), NULL);
    uint32_t object =
        event->allocator_object != NULL
            ? hf_report_string(event->allocator_object, strlen(event->allocator_object), NULL)
            : 0;
    struct hf_report_allocator *allocator =
        hf_report_add(HF_REPORT_ALLOCATORS, sizeof *allocator, NULL);
    if (allocator == NULL)
        return 0;
    allocator->name = name;
    allocator->object = object;
    hf_report_publish(HF_REPORT_ALLOCATORS, sizeof *allocator);
    allocators[allocator_count].name = event->allocator;
    allocators[allocator_count].object = event->allocator_object;
    return ++allocator_count;
}

/* The rule, the allocator and the sites. Stacks make no difference, but for the places in Python's
 * code that belong to sites. */
static uint64_t key_of(const struct hf_event *event, uint32_t allocator)
{
    uint64_t key = hf_stack_mix((uint64_t)event->rule << 32 | allocator, event->freed_site);
    if (event->freed_site < HF_SITES_ROOM && hf_recorded_sites[event->freed_site].for_python)
        key = hf_stack_mix(key, hf_python_stack_here());
    key = hf_stack_mix(key, hf_stack_base(event->allocated_site));
    return hf_stack_mix(key, hf_stack_python(event->allocated_site));
}

/* Where the finding with a key is, or belongs. Under the lock. */
static uint16_t *place_of(uint64_t key)
{
    size_t at = key % PLACES;
    while (places[at] != 0 && keys[places[at] - 1] != key)
        at = (at + 1) % PLACES;
    return &places[at];
}

/* Whether the fault is that the block is being allocated, by the calling thread. */
static bool is_allocation(const struct hf_event *event)
{
    return event->rule == HF_FAULT_NO_GIL && event->freed_site == 0;
}

/* A new finding, with the stack of the free, or of the allocation where that is the fault. Under
 * the lock. */
static struct hf_report_finding *add(const struct hf_event *event, uint32_t allocator, uint64_t key,
                                     const void *const *frames, size_t depth)
{
    if (finding_count == FINDINGS_MAX)
        return NULL;
    const uint32_t stack = hf_stack_record_here(frames, depth);
    const uint32_t allocated = hf_stack_record(event->allocated.frames, event->allocated.depth);
    const uint32_t first = hf_stack_record(event->first_freed.frames, event->first_freed.depth);
    struct hf_report_finding *finding = hf_report_add(HF_REPORT_FINDINGS, sizeof *finding, NULL);
    if (finding == NULL)
        return NULL;
    finding->rule = (uint32_t)event->rule;
    finding->allocator = allocator;
    finding->allocated_site = hf_stack_base(event->allocated_site);
    finding->freed_site = event->freed_site;
    finding->first_freed_site = hf_stack_base(event->first_freed_site);
    finding->allocated_stack = allocated;
    finding->first_freed_stack = first;
    *(is_allocation(event) ? &finding->allocated_stack : &finding->freed_stack) = stack;
    finding->pointer = (uintptr_t)event->ptr;
    finding->asked = event->asked;
    finding->said = event->said;
    hf_report_publish(HF_REPORT_FINDINGS, sizeof *finding);
    findings[finding_count] = finding;
    keys[finding_count] = key;
    *place_of(key) = (uint16_t)(finding_count + 1);
    __atomic_store_n(&finding_count, finding_count + 1, __ATOMIC_RELEASE);
    return finding;
}

/* Counts an event for its finding. The first stack of the allocating side is kept. */
static void count(struct hf_report_finding *finding, const struct hf_event *event)
{
    if (finding->allocated_stack == 0)
        finding->allocated_stack = hf_stack_of_site(event->allocated_site);
    if (finding->allocated_stack == 0 && hf_stack_wanted(finding->allocated_site))
        hf_site_deepen(finding->allocated_site);
    finding->count++;
    finding->bytes += event->bytes;
}

/* The calling thread's stack is taken outside the lock, and only for a new finding. */
static void record(const struct hf_event *event)
{
    const void *own[HF_UNWIND_MAX];
    const void *const *frames = event->freed.frames != NULL ? event->freed.frames : own;
    size_t depth = event->freed.depth;
    const uint32_t site =
        is_allocation(event) ? hf_stack_base(event->allocated_site) : event->freed_site;
    for (bool taken = site == 0 || event->freed.frames != NULL;; taken = true) {
        if (!hf_report_lock())
            break;
        const uint32_t allocator = number_allocator(event);
        const uint64_t key = key_of(event, allocator);
        const uint16_t known = *place_of(key);
        struct hf_report_finding *finding = known != 0 ? findings[known - 1] : NULL;
        if (finding == NULL && taken)
            finding = add(event, allocator, key, frames, depth);
        if (finding != NULL)
            count(finding, event);
        if ((finding != NULL || taken) && hf_diagnose.directory[0] != '\0')
            (void)hf_report_to_file(hf_diagnose.directory);
        hf_report_unlock();
        if (finding != NULL)
            return;
        if (taken)
            break;
        enum hf_report_function function;
        depth = hf_unwind(hf_site_address(site, &function), own, HF_UNWIND_MAX);
    }
    hf_report_drop();
}

/* ---- asking ---- */

uint32_t hf_findings_number(void)
{
    return __atomic_load_n(&finding_count, __ATOMIC_ACQUIRE);
}

const struct hf_report_finding *hf_findings_at(uint32_t index)
{
    return index < finding_count ? findings[index] : NULL;
}

const char *hf_findings_rule(uint32_t rule, const char **remedy, enum hf_report_severity *severity)
{
    *remedy = rules[rule].remedy;
    *severity = rules[rule].severity;
    return rules[rule].name;
}

void hf_findings_allocator(uint32_t allocator, const char **name, const char **object)
{
    *name = allocator != 0 ? allocators[allocator - 1].name : NULL;
    *object = allocator != 0 ? allocators[allocator - 1].object : NULL;
}

/* ---- strict mode ---- */

static void add_site(struct hf_text *text, const char *verb, uint32_t site)
{
    enum hf_report_function function;
    const void *address = hf_site_address(site, &function);
    if (address == NULL)
        return;
    hf_text_add(text, verb);
    hf_text_add_code(text, address);
}

static __attribute__((noreturn)) void stop(const struct hf_event *event)
{
    const struct rule *rule = &rules[event->rule];
    struct hf_text text;
    hf_text_begin(&text);
    hf_text_say(&text, "fatal: %s of %p: %.*s", rule->name, event->ptr,
                (int)strlen(rule->explanation) - 1, rule->explanation);
    if (event->allocator != NULL)
        hf_text_say(&text, "; it belongs to %s", event->allocator);
    if (event->allocator != NULL && event->allocator_object != NULL)
        hf_text_say(&text, " in %s", event->allocator_object);
    add_site(&text, "; allocated by ", event->allocated_site);
    enum hf_report_function function;
    (void)hf_site_address(event->freed_site, &function);
    const bool accessed = function == HF_FUNCTION_read || function == HF_FUNCTION_write ||
                          function == HF_FUNCTION_access;
    add_site(&text, accessed ? "; freed by " : "; first freed by ", event->first_freed_site);
    add_site(&text, accessed ? "; accessed by " : "; freed by ", event->freed_site);
    hf_text_say(&text, ". %s", rule->remedy);
    hf_gate_abandon();
    hf_fatal(&text);
}

void hf_finding(const struct hf_event *event)
{
    int saved_errno = errno;
    if (hf_diagnose.mode == HF_REPORT_COUNT)
        return;
    if (hf_suppressed(rules[event->rule].name, event)) {
        errno = saved_errno;
        return;
    }
    atomic_fetch_add(&by_severity[rules[event->rule].severity], 1);
    record(event);
    if (hf_diagnose.mode == HF_REPORT_STRICT && rules[event->rule].severity != HF_REPORT_NOTE)
        stop(event);
    errno = saved_errno;
}

void hf_findings_in_child(void)
{
    finding_count = 0;
    memset(places, 0, sizeof places);
    hf_suppressions_in_child();
    for (int i = 0; i <= HF_REPORT_ERROR; i++)
        atomic_store(&by_severity[i], 0);
}
