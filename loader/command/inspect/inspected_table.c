/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of `homefree inspect`, for people. See inspected.h.
 */
#include "loader/command/inspect/inspected.h"

#include "loader/command/text.h"

static void print_homefree(FILE *out, const struct hf_inspection *inspection)
{
    if (inspection->homefree_itself) {
        fputs(", homefree itself", out);
    } else if (inspection->homefree_linked) {
        fputs(", linked with homefree", out);
        if (inspection->homefree_needed != NULL) {
            fputs(" (", out);
            hf_text_print(out, inspection->homefree_needed);
            fputc(')', out);
        }
    } else if (inspection->kind != HF_KIND_OTHER) {
        fputs(", not linked with homefree", out);
        if (!hf_inspection_allocates(inspection))
            fputs(" (it calls no malloc)", out);
    }
}

static void print_facts(FILE *out, const struct hf_inspection *inspection)
{
    static const char *const kinds[] = {"shared object", "program", "other file"};
    fputs("  ", out);
    if (inspection->module != NULL) {
        fputs("Python module ", out);
        hf_text_print(out, inspection->module);
    } else {
        fputs(kinds[inspection->kind], out);
    }
    fprintf(out, ", %s", inspection->machine);
    print_homefree(out, inspection);
    fputc('\n', out);
}

static void print_object(FILE *out, const struct hf_object *object, bool coloured)
{
    const struct hf_findings findings = hf_inspected_findings(&object->inspection);
    fputs(hf_text_style(coloured, HF_TEXT_BOLD), out);
    hf_text_print(out, object->path);
    fprintf(out, "%s\n", hf_text_style(coloured, HF_TEXT_PLAIN));
    print_facts(out, &object->inspection);
    if (findings.count == 0)
        fputs("  clean\n", out);
    hf_findings_print(out, &findings, coloured);
    fputc('\n', out);
}

/* Clean objects of a container are only counted. */
static bool is_shown(const struct hf_inspected *inspected, const struct hf_object *object)
{
    return object->container == SIZE_MAX || inspected->all ||
           hf_inspected_fails(inspected, object) ||
           hf_inspection_severity(&object->inspection) > HF_SEVERITY_NOTE;
}

static void print_container(FILE *out, const struct hf_container *container)
{
    const size_t found = container->objects - container->clean;
    hf_text_print(out, container->name);
    if (container->objects > 0)
        fprintf(out, ": %zu shared object%s", container->objects,
                container->objects == 1 ? "" : "s");
    else
        fputs(container->failed > 0 ? ": nothing inspected" : ": no shared objects", out);
    if (found > 0)
        fprintf(out, ", %zu with errors or warnings", found);
    else if (container->objects > 0)
        fputs(", clean", out);
    if (container->failed > 0)
        fprintf(out, ", %zu problem%s", container->failed, container->failed == 1 ? "" : "s");
    fputc('\n', out);
}

bool hf_inspected_write_table(FILE *out, void *context)
{
    const struct hf_inspected *inspected = context;
    const bool coloured = hf_text_coloured();
    struct hf_rule_totals shown = {.failed = 0};
    for (size_t i = 0; i < inspected->objects_count; i++) {
        const struct hf_object *object = &inspected->objects[i];
        if (object->error != NULL || !is_shown(inspected, object))
            continue;
        const struct hf_findings findings = hf_inspected_findings(&object->inspection);
        print_object(out, object, coloured);
        hf_findings_add(&shown, &findings);
    }
    for (size_t i = 0; i < inspected->containers_count; i++)
        print_container(out, &inspected->containers[i]);
    if (inspected->containers_count > 0 && shown.failed + shown.severities[HF_SEVERITY_ERROR] +
                                                   shown.severities[HF_SEVERITY_WARNING] +
                                                   shown.severities[HF_SEVERITY_NOTE] >
                                               0)
        fputc('\n', out);
    hf_findings_remedies(out, &hf_inspect_table, &shown);
    return true;
}
