/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See leaks.h; and hf_findings_lost() of homefree/diagnose.h: blocks that were allocated while a
 * watch was open, that nobody freed, and that nothing points to any more. Owns, while it looks,
 * what it looks for. One thread at a time looks (reachable.h).
 */
#include "alloc/diagnose/leaks.h"

#include "alloc/base/base_name.h"
#include "alloc/base/dynlink.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/footers.h"
#include "alloc/diagnose/interpreter_sites.h"
#include "alloc/diagnose/reachable.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/heap/internal.h"
#include "alloc/trace/watch_report.h"

#include <errno.h>
#include <homefree/diagnose.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static void report(uint32_t rule, const void *block, size_t capacity, struct hf_footer footer,
                   uint32_t freed_site, uint32_t said)
{
    const size_t asked = hf_footer_asked(capacity, footer);
    const struct hf_event event = {
        .rule = rule,
        .ptr = block,
        .allocator = "heap",
        .allocated_site = footer.site,
        .first_freed_site = freed_site,
        .bytes = asked != SIZE_MAX ? asked : 0, /* unknown: what stood in front was damaged */
        .said = said,
    };
    hf_finding(&event);
}

/* ---- across objects ---- */

/* By site: one that freed a block of it from another object; 0: none. */
static uint32_t *freed_by;
static size_t handed_over, suspects;

/* libc and the dynamic linker free each other's blocks, and are one party. */
static bool is_libc(uint32_t site)
{
    static const char *const names[] = {"libc.so.", "ld-", "ld.so.", "libpthread", "libdl."};
    const char *name = hf_base_name(hf_site_object_path(site));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* What this library allocates and frees, it does on somebody's behalf. */
static bool is_own(uint32_t site)
{
    enum hf_report_function function;
    const void *address = hf_site_address(site, &function);
    return address == NULL ||
           hf_dynlink_find_fast((const char *)address - 1) == hf_dynlink_find_fast(&hf_region);
}

static void see_free(const void *block, size_t capacity, struct hf_footer footer, bool is_live)
{
    (void)block;
    (void)capacity;
    const uint32_t site = hf_stack_base(footer.site), freed = footer.slack;
    if (is_live || site == 0 || site >= HF_SITES_ROOM || freed == 0 || freed >= HF_SITES_ROOM ||
        freed_by[site] != 0 || hf_site_object(site) == hf_site_object(freed) ||
        hf_site_object(site) == 0 || hf_site_object(freed) == 0 || is_own(site) || is_own(freed) ||
        (is_libc(site) && is_libc(freed)))
        return;
    freed_by[site] = freed;
    handed_over++;
}

static bool is_suspect(struct hf_footer footer, bool is_live)
{
    const uint32_t site = hf_stack_base(footer.site);
    return is_live && site < HF_SITES_ROOM && freed_by[site] != 0;
}

static void see_suspect(const void *block, size_t capacity, struct hf_footer footer, bool is_live)
{
    (void)block;
    (void)capacity;
    suspects += is_suspect(footer, is_live);
}

static void see_leak(const void *block, size_t capacity, struct hf_footer footer, bool is_live)
{
    if (is_suspect(footer, is_live) && !hf_reachable_is(block))
        report(HF_FAULT_BOUNDARY_LEAK, block, capacity, footer,
               freed_by[hf_stack_base(footer.site)], 0);
}

void hf_leaks_find(const void *stack)
{
    const size_t size = HF_SITES_ROOM * sizeof *freed_by;
    if (hf_forward != NULL)
        return;
    freed_by = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (freed_by == MAP_FAILED)
        return;
    if (hf_reachable_begin()) {
        hf_reachable_each_block(see_free);
        if (handed_over != 0)
            hf_reachable_each_block(see_suspect);
        if (suspects != 0 && hf_reachable_mark(stack))
            hf_reachable_each_block(see_leak);
        hf_reachable_end();
    }
    (void)munmap(freed_by, size);
}

/* ---- of an interpreter ---- */

static uint32_t ended;
static bool (*held)(const void *block);

static void see_left(const void *block, size_t capacity, struct hf_footer footer, bool is_live)
{
    if (is_live && hf_interpreter_of_site(footer.site) == ended && !held(block))
        report(HF_FAULT_INTERPRETER_LEAK, block, capacity, footer, 0, ended);
}

void hf_interpreter_leaks_find(uint32_t interpreter, bool (*is_held)(const void *block))
{
    if (interpreter == 0 || hf_forward != NULL || !hf_reachable_begin())
        return;
    ended = interpreter;
    held = is_held;
    hf_reachable_each_block(see_left);
    hf_reachable_end();
}

/* ---- of a watch ---- */

/* Whether it is a live block that a module allocated. */
static bool is_modules(const void *block, struct hf_footer *footer, size_t *capacity)
{
    *capacity = hf_heap_capacity(block);
    return *capacity != 0 && hf_footer_read(block, *capacity, footer) == HF_FOOTER_LIVE &&
           hf_site_is_module(hf_stack_base(footer->site));
}

static void count_candidate(const void *block, void *count)
{
    struct hf_footer footer;
    size_t capacity;
    *(uint64_t *)count += is_modules(block, &footer, &capacity);
}

static void report_lost(const void *block, void *count)
{
    struct hf_footer footer;
    size_t capacity;
    if (!is_modules(block, &footer, &capacity) || hf_reachable_is(block))
        return;
    report(HF_FAULT_LOST_BLOCK, block, capacity, footer, 0, 0);
    ++*(uint64_t *)count;
}

/* The frame lies below all that the caller has saved of its registers. */
static __attribute__((noinline)) int look(struct hf_watch *watch, uint64_t *out)
{
    uint64_t candidates = 0;
    int result = hf_watch_each_left(watch, count_candidate, &candidates);
    if (result != 0 || candidates == 0)
        return result;
    if (!hf_reachable_begin())
        return -EAGAIN;
    hf_reachable_skip(watch, watch->mapped);
    if (hf_reachable_mark(__builtin_frame_address(0)))
        (void)hf_watch_each_left(watch, report_lost, out);
    else
        result = -ETIME;
    hf_reachable_end();
    return result;
}

int hf_findings_lost(struct hf_watch *watch, uint64_t *out)
{
    if (watch == NULL || out == NULL)
        return -EINVAL;
    if (hf_diagnose.mode == HF_REPORT_COUNT || hf_forward != NULL)
        return -ENOTSUP;
    __builtin_unwind_init(); /* saves the registers in this frame */
    int saved_errno = errno;
    *out = 0;
    int result = look(watch, out);
    errno = saved_errno;
    return result;
}
