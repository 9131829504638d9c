/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is asked of a finished inspection; see inspect.h. Owns nothing; any thread, each with an
 * inspection of its own.
 */
#include "loader/inspect/inspect.h"
#include "loader/inspect/inspect_parts.h"

#include <errno.h>

bool hf_inspection_allocates(const struct hf_inspection *inspection)
{
    return inspection->allocating_count > 0 || inspection->allocators_count > 0;
}

int hf_inspection_require_homefree(struct hf_inspection *inspection)
{
    const size_t capacity = sizeof inspection->findings / sizeof inspection->findings[0];
    if (inspection->module == NULL || inspection->homefree_linked || inspection->homefree_itself ||
        !hf_inspection_allocates(inspection))
        return 0;
    if (inspection->findings_count == capacity)
        return -ENOMEM;
    struct hf_inspection_finding *finding = &inspection->findings[inspection->findings_count++];
    *finding = (struct hf_inspection_finding){
        .rule = HF_RULE_NOT_LINKED,
        .message = inspection->allocating_count > 0
                       ? "it allocates or frees memory and is not linked with homefree"
                       : "it contains an allocator and is not linked with homefree",
        .names_count = inspection->allocating_kept,
        .count = inspection->allocating_count,
    };
    for (size_t i = 0; i < inspection->allocating_kept; i++)
        finding->names[i] = inspection->allocating[i];
    return 0;
}

enum hf_severity hf_inspection_severity(const struct hf_inspection *inspection)
{
    enum hf_severity severity = HF_SEVERITY_NOTE;
    for (size_t i = 0; i < inspection->findings_count; i++)
        if (hf_rules[inspection->findings[i].rule].severity > severity)
            severity = hf_rules[inspection->findings[i].rule].severity;
    return severity;
}
