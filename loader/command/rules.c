/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See rules.h. Owns the page's path, which is the caller's.
 */
#include "loader/command/rules.h"

#include "loader/command/command.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- the page of findings ------------------------------------------------------------------- */

static const char *page;

void hf_rules_set_page(const char *path)
{
    page = path;
}

void hf_rules_write_help(struct hf_json *json, const struct hf_rule_table *table, const char *rule)
{
    char address[3 * PATH_MAX + 128];
    size_t length = (size_t)snprintf(address, sizeof address, "file://");
    for (const char *at = page; at != NULL && *at != '\0' && at < page + PATH_MAX; at++) {
        const bool plain = isalnum((unsigned char)*at) || strchr("/-._~+", *at) != NULL;
        length += (size_t)sprintf(address + length, plain ? "%c" : "%%%02X", (unsigned char)*at);
    }
    snprintf(address + length, sizeof address - length, "#%s-%s", table->command, rule);
    hf_json_string(json, "help", page != NULL ? address : NULL);
}

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
        hf_rules_write_help(&json, table, rule->name);
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

void hf_rules_write(struct hf_json *json, const struct hf_rule_table *table,
                    const struct hf_inspection_finding *finding)
{
    const struct hf_rule_text *rule = &table->rules[finding->rule];
    hf_json_object(json, NULL);
    hf_json_string(json, "rule", rule->name);
    hf_json_string(json, "severity", hf_severity_name(rule->severity));
    hf_json_string(json, "message", finding->message);
    hf_json_string(json, "remedy", rule->remedy);
    hf_rules_write_help(json, table, rule->name);
    hf_json_unsigned(json, "count", finding->count);
    hf_json_array(json, "names");
    for (size_t n = 0; n < finding->names_count; n++)
        hf_json_string(json, NULL, finding->names[n]);
    hf_json_close(json);
    hf_json_close(json);
}

void hf_rules_count(struct hf_rule_totals *totals, const struct hf_rule_table *table, size_t rule)
{
    totals->severities[table->rules[rule].severity]++;
    totals->found[rule] = true;
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
