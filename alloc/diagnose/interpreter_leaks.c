/* SPDX-License-Identifier: BSD-2-Clause */
/* See interpreter_leaks.h. Owns, while it looks, what it looks for. */
#include "alloc/diagnose/interpreter_leaks.h"

#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/interpreter_sites.h"
#include "alloc/diagnose/reachable.h"
#include "alloc/heap/internal.h"

static uint32_t ended;
static bool (*held)(const void *block);

static void see_block(const void *block, size_t capacity, struct hf_footer footer, bool is_live)
{
    if (!is_live || hf_interpreter_of_site(footer.site) != ended || held(block))
        return;
    const size_t asked = hf_footer_asked(capacity, footer);
    const struct hf_event event = {
        .rule = HF_FAULT_INTERPRETER_LEAK,
        .ptr = block,
        .allocator = "heap",
        .allocated_site = footer.site,
        .bytes = asked != SIZE_MAX ? asked : 0,
        .said = ended,
    };
    hf_finding(&event);
}

void hf_interpreter_leaks_find(uint32_t interpreter, bool (*is_held)(const void *block))
{
    if (interpreter == 0 || hf_forward != NULL || !hf_reachable_begin())
        return;
    ended = interpreter;
    held = is_held;
    hf_reachable_each_block(see_block);
    hf_reachable_end();
}
