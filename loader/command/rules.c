/*
 * rules.c - see rules.h.
 */
#include "rules.h"

#include "command.h"

void hf_rules_list(FILE *out, bool as_json, const char *document, unsigned format,
                   const struct hf_rule_text *rules, size_t count)
{
    struct hf_json json;
    if (as_json) {
        hf_json_begin(&json, out, document, format);
        hf_json_array(&json, "rules");
    }
    for (size_t i = 0; i < count; i++) {
        const struct hf_rule_text *rule = &rules[i];
        if (as_json) {
            hf_json_object(&json, NULL);
            hf_json_string(&json, "rule", rule->name);
            hf_json_string(&json, "severity", hf_severity_name(rule->severity));
            hf_json_string(&json, "explanation", rule->explanation);
            hf_json_string(&json, "remedy", rule->remedy);
            hf_json_close(&json);
        } else {
            fprintf(out, "%s%s (%s)\n  %s\n  %s\n", i == 0 ? "" : "\n", rule->name,
                    hf_severity_name(rule->severity), rule->explanation, rule->remedy);
        }
    }
    if (as_json)
        hf_json_finish(&json);
}

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
