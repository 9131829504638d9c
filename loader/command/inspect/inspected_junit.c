/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of `homefree inspect --junit`: a suite for each directory, archive and distribution and
 * one for the files that were given themselves, with a case for each shared object. See
 * inspected.h.
 */
#include "loader/command/inspect/inspected.h"

#include "loader/command/text.h"

#include <stdlib.h>
#include <string.h>

/* Prints text that stays well-formed XML: '?' stands for what XML 1.0 cannot hold. */
static void print_xml(FILE *out, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        const size_t length = hf_text_sequence(at);
        const bool wrong = length == 0 || (*at < 0x20 && *at != '\n') || *at == 0x7f ||
                           (length == 2 && *at == 0xc2 && at[1] < 0xa0) ||
                           (length == 3 && memcmp(at, "\xef\xbf", 2) == 0 && at[2] >= 0xbe);
        if (wrong)
            fputc('?', out);
        else if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            fprintf(out, "&#%u;", *at);
        else
            fwrite(at, 1, length, out);
        at += length == 0 ? 1 : length;
    }
}

/* In an attribute, which has one line. */
static void print_attribute(FILE *out, const char *name, const char *text)
{
    char *line = strdup(text);
    fprintf(out, " %s=\"", name);
    for (char *at = line; at != NULL && *at != '\0'; at++)
        if (*at == '\n')
            *at = '?';
    print_xml(out, line != NULL ? line : "");
    fputc('"', out);
    free(line);
}

/* Prints the findings that make the command fail, or the others. Returns whether there are any. */
static bool print_findings(FILE *out, const struct hf_inspected *inspected,
                           const struct hf_object *object, bool failing)
{
    const struct hf_findings findings = hf_inspected_findings(&object->inspection);
    bool any = false;
    for (size_t i = 0; i < findings.count; i++) {
        const struct hf_rule_text *rule = &hf_rules[object->inspection.findings[i].rule];
        if (inspected->fails[object->inspection.findings[i].rule] != failing)
            continue;
        fprintf(out, "%s%s %s: ", any ? "\n" : "", hf_severity_name(rule->severity), rule->name);
        hf_finding_print(out, &findings, i);
        fprintf(out, "\n  %s", rule->remedy);
        any = true;
    }
    return any;
}

/* The findings as a text, for the caller to free; NULL if there are none. */
static char *findings_text(const struct hf_inspected *inspected, const struct hf_object *object,
                           bool failing)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    const bool any = out != NULL && print_findings(out, inspected, object, failing);
    if (out != NULL)
        fclose(out);
    if (any)
        return text;
    free(text);
    return NULL;
}

static void print_failure(FILE *out, const struct hf_inspected *inspected,
                          const struct hf_object *object, const char *text)
{
    const struct hf_findings findings = hf_inspected_findings(&object->inspection);
    size_t first = SIZE_MAX, count = 0;
    for (size_t i = 0; i < findings.count; i++)
        if (inspected->fails[object->inspection.findings[i].rule] && count++ == 0)
            first = i;
    char message[160];
    const struct hf_inspection_finding *finding = &object->inspection.findings[first];
    if (count > 1)
        snprintf(message, sizeof message, "%s, and %zu more finding%s", finding->message, count - 1,
                 count == 2 ? "" : "s");
    fputs("      <failure", out);
    print_attribute(out, "type", hf_rules[finding->rule].name);
    print_attribute(out, "message", count > 1 ? message : finding->message);
    fputc('>', out);
    print_xml(out, text);
    fputs("</failure>\n", out);
}

static void print_case(FILE *out, const struct hf_inspected *inspected,
                       const struct hf_object *object, const char *suite)
{
    fputs("    <testcase", out);
    print_attribute(out, "classname", suite);
    print_attribute(out, "name", object->inner != NULL ? object->inner : object->path);
    fputs(">\n", out);
    if (object->error != NULL) {
        fputs("      <error type=\"not-inspected\"", out);
        print_attribute(out, "message", object->error);
        fputs("/>\n", out);
    } else {
        char *failing = findings_text(inspected, object, true);
        char *others = findings_text(inspected, object, false);
        if (failing != NULL)
            print_failure(out, inspected, object, failing);
        if (others != NULL) {
            fputs("      <system-out>", out);
            print_xml(out, others);
            fputs("</system-out>\n", out);
        }
        free(failing);
        free(others);
    }
    fputs("    </testcase>\n", out);
}

struct counts {
    size_t cases, failures, errors;
};

/* `container` may be SIZE_MAX. */
static struct counts count(const struct hf_inspected *inspected, size_t container, bool all)
{
    struct counts counts = {0, 0, 0};
    for (size_t i = 0; i < inspected->objects_count; i++) {
        const struct hf_object *object = &inspected->objects[i];
        if (!all && object->container != container)
            continue;
        counts.cases++;
        counts.errors += object->error != NULL;
        counts.failures += object->error == NULL && hf_inspected_fails(inspected, object);
    }
    return counts;
}

static void print_counts(FILE *out, struct counts counts)
{
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", counts.cases, counts.failures,
            counts.errors);
}

static void print_suite(FILE *out, const struct hf_inspected *inspected, size_t container)
{
    const char *name = container == SIZE_MAX ? "files" : inspected->containers[container].name;
    fputs("  <testsuite", out);
    print_attribute(out, "name", name);
    print_counts(out, count(inspected, container, false));
    for (size_t i = 0; i < inspected->objects_count; i++)
        if (inspected->objects[i].container == container)
            print_case(out, inspected, &inspected->objects[i], name);
    fputs("  </testsuite>\n", out);
}

bool hf_inspected_write_junit(FILE *out, void *context)
{
    const struct hf_inspected *inspected = context;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"homefree inspect\"", out);
    print_counts(out, count(inspected, 0, true));
    if (count(inspected, SIZE_MAX, false).cases > 0)
        print_suite(out, inspected, SIZE_MAX);
    for (size_t i = 0; i < inspected->containers_count; i++)
        print_suite(out, inspected, i);
    fputs("</testsuites>\n", out);
    return true;
}
