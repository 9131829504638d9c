/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See inspected.h.
 */
#include "loader/command/inspect/inspected.h"

#include "loader/command/command.h"
#include "loader/command/grown.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(HF_RULE_COUNT <= HF_RULES_MAX, "hf_rule_totals has a flag for each rule");
const struct hf_rule_table hf_inspect_table = {"inspect", 1, hf_rules, HF_RULE_COUNT};

static void *need(void *memory)
{
    if (memory == NULL)
        exit(hf_command_out_of_memory("homefree inspect"));
    return memory;
}

size_t hf_inspected_contain(struct hf_inspected *inspected, enum hf_container_kind kind,
                            const char *name)
{
    inspected->containers = need(hf_grown(inspected->containers, inspected->containers_count,
                                          sizeof *inspected->containers));
    inspected->containers[inspected->containers_count] =
        (struct hf_container){.kind = kind, .name = need(strdup(name))};
    return inspected->containers_count++;
}

static struct hf_finding finding_at(const void *context, size_t index)
{
    const struct hf_inspection *inspection = context;
    const struct hf_inspection_finding *finding = &inspection->findings[index];
    return (struct hf_finding){
        .rule = finding->rule,
        .message = finding->message,
        .names = finding->names,
        .names_count = finding->names_count,
        .count = finding->count,
        .in_message = finding->rule == HF_RULE_ALLOCATOR,
    };
}

struct hf_findings hf_inspected_findings(const struct hf_inspection *inspection)
{
    return (struct hf_findings){
        .table = &hf_inspect_table,
        .count = inspection->findings_count,
        .get = finding_at,
        .context = inspection,
        .name_max = 60,
    };
}

void hf_inspected_add(struct hf_inspected *inspected, size_t container, const char *path,
                      size_t inner, const struct hf_inspection *inspection, const char *error)
{
    inspected->objects =
        need(hf_grown(inspected->objects, inspected->objects_count, sizeof *inspected->objects));
    struct hf_object *object = &inspected->objects[inspected->objects_count++];
    *object = (struct hf_object){.path = need(strdup(path)), .container = container};
    object->inner = inner > 0 ? object->path + inner : NULL;
    if (error != NULL) {
        object->error = need(strdup(error));
        inspected->totals.failed++;
        if (container != SIZE_MAX)
            inspected->containers[container].failed++;
        return;
    }
    object->inspection = *inspection;
    const struct hf_findings findings = hf_inspected_findings(&object->inspection);
    hf_findings_add(&inspected->totals, &findings);
    if (container != SIZE_MAX) {
        inspected->containers[container].objects++;
        inspected->containers[container].clean +=
            hf_inspection_severity(inspection) == HF_SEVERITY_NOTE;
    }
}

bool hf_inspected_fails(const struct hf_inspected *inspected, const struct hf_object *object)
{
    for (size_t i = 0; i < object->inspection.findings_count; i++)
        if (inspected->fails[object->inspection.findings[i].rule])
            return true;
    return false;
}

void hf_inspected_free(struct hf_inspected *inspected)
{
    for (size_t i = 0; i < inspected->objects_count; i++) {
        hf_inspection_free(&inspected->objects[i].inspection);
        free(inspected->objects[i].path);
        free(inspected->objects[i].error);
    }
    for (size_t i = 0; i < inspected->containers_count; i++)
        free(inspected->containers[i].name);
    free(inspected->objects);
    free(inspected->containers);
}
