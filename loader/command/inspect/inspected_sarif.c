/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of `homefree inspect --sarif`: SARIF 2.1.0, which services for code scanning read. The
 * location of a finding is the file that was given; a member of an archive is a logical location in
 * it. See inspected.h.
 */
#include "loader/command/inspect/inspected.h"

#include <homefree/homefree.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Writes a string that `print` prints. */
static void write_printed(struct hf_json *json, const char *key,
                          void (*print)(FILE *out, const void *context), const void *context)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (out != NULL) {
        print(out, context);
        fclose(out);
    }
    hf_json_string(json, key, text != NULL ? text : "");
    free(text);
}

/* A relative path stays a relative reference (RFC 3986). */
static void print_uri(FILE *out, const void *context)
{
    const struct hf_object *object = context;
    const size_t length = object->inner != NULL
                              ? (size_t)(object->inner - object->path) - sizeof HF_MEMBER_MARK + 1
                              : strlen(object->path);
    fputs(object->path[0] == '/' ? "file://" : "", out);
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)object->path[i];
        if (byte < 0x80 && (isalnum(byte) || strchr("-._~/", byte) != NULL))
            fputc(byte, out);
        else
            fprintf(out, "%%%02X", byte);
    }
}

static void write_text(struct hf_json *json, const char *key, const char *text)
{
    hf_json_object(json, key);
    hf_json_string(json, "text", text);
    hf_json_close(json);
}

static void write_locations(struct hf_json *json, const struct hf_object *object)
{
    hf_json_array(json, "locations");
    hf_json_object(json, NULL);
    hf_json_object(json, "physicalLocation");
    hf_json_object(json, "artifactLocation");
    write_printed(json, "uri", print_uri, object);
    hf_json_close(json);
    hf_json_close(json);
    if (object->inner != NULL) {
        hf_json_array(json, "logicalLocations");
        hf_json_object(json, NULL);
        hf_json_string(json, "fullyQualifiedName", object->inner);
        hf_json_string(json, "kind", "member");
        hf_json_close(json);
        hf_json_close(json);
    }
    hf_json_close(json);
    hf_json_close(json);
}

struct one {
    const struct hf_object *object;
    size_t index;
};

static void print_message(FILE *out, const void *context)
{
    const struct one *one = context;
    const struct hf_findings findings = hf_inspected_findings(&one->object->inspection);
    fprintf(out, "%s: ", one->object->inner != NULL ? one->object->inner : one->object->path);
    hf_finding_print(out, &findings, one->index);
}

static void write_result(struct hf_json *json, const struct hf_object *object, size_t index)
{
    const struct one one = {object, index};
    const enum hf_rule rule = object->inspection.findings[index].rule;
    hf_json_object(json, NULL);
    hf_json_string(json, "ruleId", hf_rules[rule].name);
    hf_json_unsigned(json, "ruleIndex", rule);
    hf_json_string(json, "level", hf_severity_name(hf_rules[rule].severity));
    hf_json_object(json, "message");
    write_printed(json, "text", print_message, &one);
    hf_json_close(json);
    write_locations(json, object);
    hf_json_close(json);
}

static void write_tool(struct hf_json *json)
{
    hf_json_object(json, "tool");
    hf_json_object(json, "driver");
    hf_json_string(json, "name", "homefree inspect");
    hf_json_string(json, "version", HF_VERSION);
    hf_json_string(json, "semanticVersion", HF_VERSION);
    hf_json_array(json, "rules");
    for (size_t i = 0; i < HF_RULE_COUNT; i++) {
        hf_json_object(json, NULL);
        hf_json_string(json, "id", hf_rules[i].name);
        write_text(json, "shortDescription", hf_rules[i].explanation);
        write_text(json, "help", hf_rules[i].remedy);
        hf_json_object(json, "defaultConfiguration");
        hf_json_string(json, "level", hf_severity_name(hf_rules[i].severity));
        hf_json_close(json);
        hf_json_close(json);
    }
    hf_json_close(json);
    hf_json_close(json);
    hf_json_close(json);
}

static void write_invocation(struct hf_json *json, const struct hf_inspected *inspected)
{
    hf_json_array(json, "invocations");
    hf_json_object(json, NULL);
    hf_json_boolean(json, "executionSuccessful", inspected->totals.failed == 0);
    hf_json_array(json, "toolExecutionNotifications");
    for (size_t i = 0; i < inspected->objects_count; i++) {
        const struct hf_object *object = &inspected->objects[i];
        if (object->error == NULL)
            continue;
        hf_json_object(json, NULL);
        hf_json_string(json, "level", "error");
        write_text(json, "message", object->error);
        write_locations(json, object);
        hf_json_close(json);
    }
    hf_json_close(json);
    hf_json_close(json);
    hf_json_close(json);
}

bool hf_inspected_write_sarif(FILE *out, void *context)
{
    const struct hf_inspected *inspected = context;
    struct hf_json json;
    hf_json_begin_plain(&json, out, false);
    hf_json_string(&json, "$schema",
                   "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
                   "sarif-schema-2.1.0.json");
    hf_json_string(&json, "version", "2.1.0");
    hf_json_array(&json, "runs");
    hf_json_object(&json, NULL);
    write_tool(&json);
    write_invocation(&json, inspected);
    hf_json_array(&json, "results");
    for (size_t i = 0; i < inspected->objects_count; i++)
        for (size_t n = 0; n < inspected->objects[i].inspection.findings_count; n++)
            write_result(&json, &inspected->objects[i], n);
    hf_json_finish(&json);
    return true;
}
