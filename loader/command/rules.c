/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See rules.h. Names and messages come from outside and are printed with text.h. Owns nothing.
 */
#include "loader/command/rules.h"

#include "loader/command/command.h"
#include "loader/command/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table of rules --------------------------------------------------------------------- */

struct list {
    const struct hf_rule_table *table;
    bool as_json;
};

static void print_rules(FILE *out, const struct hf_rule_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct hf_rule_text *rule = &table->rules[i];
        fprintf(out, "%s%s (%s)\n  %s\n  %s\n", i == 0 ? "" : "\n", rule->name,
                hf_severity_name(rule->severity), rule->explanation, rule->remedy);
    }
}

static void write_rules(FILE *out, const struct hf_rule_table *table)
{
    struct hf_json json;
    char document[32];
    snprintf(document, sizeof document, "%s rules", table->command);
    hf_json_begin(&json, out, document, table->format);
    hf_json_array(&json, "rules");
    for (size_t i = 0; i < table->count; i++) {
        const struct hf_rule_text *rule = &table->rules[i];
        hf_json_object(&json, NULL);
        hf_json_string(&json, "rule", rule->name);
        hf_json_string(&json, "severity", hf_severity_name(rule->severity));
        hf_json_string(&json, "explanation", rule->explanation);
        hf_json_string(&json, "remedy", rule->remedy);
        hf_json_close(&json);
    }
    hf_json_finish(&json);
}

static bool compose_list(FILE *out, void *context)
{
    const struct list *list = context;
    if (list->as_json)
        write_rules(out, list->table);
    else
        print_rules(out, list->table);
    return true;
}

int hf_rules_list(const char *who, const struct hf_rule_table *table, bool as_json)
{
    struct list list = {table, as_json};
    return hf_command_compose(who, "-", compose_list, &list);
}

/* ---- findings ------------------------------------------------------------------------------- */

static const struct hf_rule_text *rule_of(const struct hf_findings *findings, size_t index)
{
    return &findings->table->rules[findings->get(findings->context, index).rule];
}

void hf_findings_add(struct hf_rule_totals *totals, const struct hf_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        totals->severities[rule_of(findings, i)->severity]++;
        totals->found[findings->get(findings->context, i).rule] = true;
    }
}

/* What a finding says, and the names that it found. */
static void print_message(FILE *out, const struct hf_finding *finding)
{
    hf_text_print(out, finding->message);
    for (size_t i = 0; i < finding->names_count; i++) {
        fputs(i == 0 ? ": " : ", ", out);
        hf_text_print(out, finding->names[i]);
    }
    fputs(finding->count > finding->names_count ? ", ..." : "", out);
}

static void print_finding(FILE *out, const struct hf_findings *findings, size_t index, int widest,
                          bool coloured)
{
    const struct hf_rule_text *rule = rule_of(findings, index);
    const struct hf_finding finding = findings->get(findings->context, index);
    fprintf(out, "  %s%-7s%s  %-*s  ", hf_text_style(coloured, (enum hf_text_style)rule->severity),
            hf_severity_name(rule->severity), hf_text_style(coloured, HF_TEXT_PLAIN), widest,
            rule->name);
    print_message(out, &finding);
    fputc('\n', out);
}

void hf_findings_print(FILE *out, const struct hf_findings *findings, bool coloured)
{
    int widest = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const int width = (int)strlen(rule_of(findings, i)->name);
        widest = width > widest ? width : widest;
    }
    for (int severity = HF_SEVERITY_ERROR; severity >= HF_SEVERITY_NOTE; severity--)
        for (size_t i = 0; i < findings->count; i++)
            if (rule_of(findings, i)->severity == (enum hf_severity)severity)
                print_finding(out, findings, i, widest, coloured);
}

void hf_findings_remedies(FILE *out, const struct hf_rule_table *table,
                          const struct hf_rule_totals *totals)
{
    bool any = false;
    for (size_t i = 0; i < table->count; i++) {
        if (!totals->found[i])
            continue;
        fputs(any ? "" : "What to do:\n", out);
        any = true;
        fprintf(out, "  %s: %s\n", table->rules[i].name, table->rules[i].remedy);
    }
    if (any)
        fprintf(out, "'homefree %s --rules' says why each matters.\n", table->command);
}

void hf_findings_write(struct hf_json *json, const struct hf_findings *findings)
{
    hf_json_array(json, "findings");
    for (size_t i = 0; i < findings->count; i++) {
        const struct hf_finding finding = findings->get(findings->context, i);
        const struct hf_rule_text *rule = rule_of(findings, i);
        hf_json_object(json, NULL);
        hf_json_string(json, "rule", rule->name);
        hf_json_string(json, "severity", hf_severity_name(rule->severity));
        hf_json_string(json, "message", finding.message);
        hf_json_string(json, "remedy", rule->remedy);
        hf_json_unsigned(json, "count", finding.count);
        hf_json_array(json, "names");
        for (size_t n = 0; n < finding.names_count; n++)
            hf_json_string(json, NULL, finding.names[n]);
        hf_json_close(json);
        hf_json_close(json);
    }
    hf_json_close(json);
}

/* ---- totals --------------------------------------------------------------------------------- */

void hf_rules_totals(struct hf_json *json, const struct hf_rule_totals *totals)
{
    hf_json_unsigned(json, "failed", totals->failed);
    hf_json_unsigned(json, "errors", totals->severities[HF_SEVERITY_ERROR]);
    hf_json_unsigned(json, "warnings", totals->severities[HF_SEVERITY_WARNING]);
    hf_json_unsigned(json, "notes", totals->severities[HF_SEVERITY_NOTE]);
}

int hf_rules_status(const struct hf_rule_totals *totals)
{
    if (totals->failed > 0)
        return HF_EXIT_FAILED;
    return totals->severities[HF_SEVERITY_ERROR] + totals->severities[HF_SEVERITY_WARNING] > 0
               ? HF_EXIT_FINDINGS
               : HF_EXIT_CLEAN;
}
