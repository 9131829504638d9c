/* SPDX-License-Identifier: BSD-2-Clause */
/* See leaks.h. Owns, while it looks, who freed blocks of each site. */
#include "alloc/diagnose/leaks.h"

#include "alloc/base/base_name.h"
#include "alloc/base/dynlink.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/reachable.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/heap/internal.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

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
    if (!is_suspect(footer, is_live) || hf_reachable_is(block))
        return;
    const size_t asked = hf_footer_asked(capacity, footer);
    const struct hf_event event = {
        .rule = HF_FAULT_BOUNDARY_LEAK,
        .ptr = block,
        .allocator = "heap",
        .allocated_site = footer.site,
        .first_freed_site = freed_by[hf_stack_base(footer.site)],
        .bytes = asked != SIZE_MAX ? asked : 0,
    };
    hf_finding(&event);
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
