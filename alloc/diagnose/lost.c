/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hf_findings_lost() of homefree/diagnose.h: blocks that were allocated while a watch was open,
 * that nobody freed, and that nothing points to any more. Owns nothing; one thread at a time looks
 * (reachable.h).
 */
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/footers.h"
#include "alloc/diagnose/reachable.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"
#include "alloc/heap/internal.h"
#include "alloc/trace/watch_report.h"

#include <homefree/diagnose.h>

#include <errno.h>

/* Whether it is a live block that a module allocated. */
static bool is_suspect(const void *block, struct hf_footer *footer, size_t *capacity)
{
    *capacity = hf_heap_capacity(block);
    return *capacity != 0 && hf_footer_read(block, *capacity, footer) == HF_FOOTER_LIVE &&
           hf_site_is_module(hf_stack_base(footer->site));
}

static void count_suspect(const void *block, void *count)
{
    struct hf_footer footer;
    size_t capacity;
    *(uint64_t *)count += is_suspect(block, &footer, &capacity);
}

static void report_lost(const void *block, void *count)
{
    struct hf_footer footer;
    size_t capacity;
    if (!is_suspect(block, &footer, &capacity) || hf_reachable_is(block))
        return;
    const size_t asked = hf_footer_asked(capacity, footer);
    const struct hf_event event = {
        .rule = HF_FAULT_LOST_BLOCK,
        .ptr = block,
        .allocator = "heap",
        .allocated_site = footer.site,
        .bytes = asked != SIZE_MAX ? asked : 0, /* unknown: what stood in front was damaged */
    };
    hf_finding(&event);
    ++*(uint64_t *)count;
}

/* The frame lies below all that the caller has saved of its registers. */
static __attribute__((noinline)) int look(struct hf_watch *watch, uint64_t *out)
{
    uint64_t suspects = 0;
    int result = hf_watch_each_left(watch, count_suspect, &suspects);
    if (result != 0 || suspects == 0)
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
