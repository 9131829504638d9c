/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/diagnose.h in a diagnosed process. A part of a run knows how often each finding had
 * occurred when it began; later findings began at 0. The list of findings belongs to findings.c.
 */
#include "alloc/base/sized.h"
#include "alloc/diagnose/findings.h"
#include "alloc/diagnose/plain.h"
#include "alloc/diagnose/report_file.h"
#include "alloc/diagnose/sites.h"
#include "alloc/diagnose/stacks.h"

#include <homefree/diagnose.h>

#include <errno.h>
#include <unistd.h>

struct hf_findings {
    pid_t process; /* a forked child's list begins anew */
    uint32_t known;
    uint32_t next; /* the one that hf_findings_next() looks at next */
    struct {
        uint64_t count, bytes;
    } before[];
};

_Static_assert((int)HF_FOUND_NOTE == (int)HF_REPORT_NOTE &&
                   (int)HF_FOUND_WARNING == (int)HF_REPORT_WARNING &&
                   (int)HF_FOUND_ERROR == (int)HF_REPORT_ERROR,
               "homefree/diagnose.h has the severities of report_rules.def");

static const char *const functions[HF_FUNCTION_COUNT] = {
#define HF_REPORT_FUNCTION(id, name) [HF_FUNCTION_##id] = (name),
#include "alloc/diagnose/report_functions.def"
};

int hf_findings_begin(struct hf_findings **out)
{
    if (out == NULL)
        return -EINVAL;
    if (hf_diagnose.mode == HF_REPORT_COUNT)
        return -ENOTSUP;
    const uint32_t capacity =
        hf_findings_number(); /* only grows; what is added meanwhile is found */
    struct hf_findings *findings =
        hf_plain_malloc(sizeof *findings + capacity * sizeof findings->before[0]);
    if (findings == NULL)
        return -ENOMEM;
    *findings = (struct hf_findings){.process = getpid(), .known = capacity};
    if (!hf_report_lock()) {
        hf_plain_free(findings);
        return -EAGAIN;
    }
    for (uint32_t i = 0; i < capacity; i++) {
        const struct hf_report_finding *finding = hf_findings_at(i);
        findings->before[i].count = finding != NULL ? finding->count : 0;
        findings->before[i].bytes = finding != NULL ? finding->bytes : 0;
    }
    hf_report_unlock();
    *out = findings;
    return 0;
}

static struct hf_found_place place_of(uint32_t site)
{
    enum hf_report_function function;
    const uint32_t base = hf_stack_base(site);
    if (hf_site_address(base, &function) == NULL)
        return (struct hf_found_place){0};
    return (struct hf_found_place){
        .object = hf_site_object_path(base),
        .function = functions[function],
        .offset = hf_site_offset(base),
    };
}

/* The next finding that occurred since the part began; false: there is none. Under the lock. */
static bool find_next(struct hf_findings *findings, struct hf_found *out)
{
    const struct hf_report_finding *finding;
    while ((finding = hf_findings_at(findings->next)) != NULL) {
        const bool is_known = findings->next < findings->known;
        const uint64_t before = is_known ? findings->before[findings->next].count : 0;
        const uint64_t bytes = is_known ? findings->before[findings->next].bytes : 0;
        findings->next++;
        if (finding->count <= before)
            continue;
        *out = (struct hf_found){
            .count = finding->count - before,
            .bytes = finding->bytes - bytes,
            .allocated = place_of(finding->allocated_site),
            .freed = place_of(finding->freed_site),
            .first_freed = place_of(finding->first_freed_site),
        };
        enum hf_report_severity severity;
        out->rule = hf_findings_rule(finding->rule, &out->remedy, &severity);
        out->severity = (int32_t)severity;
        hf_findings_allocator(finding->allocator, &out->allocator, &out->allocator_object);
        return true;
    }
    return false;
}

int hf_findings_next(struct hf_findings *findings, struct hf_found *out)
{
    struct hf_found found;
    if (findings == NULL || out == NULL || out->size <= sizeof(size_t))
        return -EINVAL;
    if (findings->process != getpid()) {
        findings->process = getpid();
        findings->known = findings->next = 0;
    }
    if (!hf_report_lock())
        return -EAGAIN;
    const bool any = find_next(findings, &found);
    hf_report_unlock();
    if (!any)
        findings->next = 0;
    else
        hf_sized_copy(out, &found, sizeof found);
    return any;
}

void hf_findings_end(struct hf_findings *findings)
{
    hf_plain_free(findings);
}
