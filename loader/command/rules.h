/*
 * What every command that has rules does with them: `--rules`, totals, the exit status. No state.
 */
#ifndef HF_LOADER_COMMAND_RULES_H
#define HF_LOADER_COMMAND_RULES_H

#include "inspect.h"
#include "json.h"

#include <stdio.h>

/* The rules, for a person, or as a document of that name and format (json.h). */
void hf_rules_list(FILE *out, bool as_json, const char *document, unsigned format,
                   const struct hf_rule_text *rules, size_t count);

/* What could not be looked at, and what was found, by severity. */
struct hf_rule_totals {
    size_t failed, severities[HF_SEVERITY_ERROR + 1];
};

/* Members of the open object: failed, errors, warnings, notes. */
void hf_rules_totals(struct hf_json *json, const struct hf_rule_totals *totals);

/* HF_EXIT_FAILED, HF_EXIT_FINDINGS (errors and warnings) or HF_EXIT_CLEAN. */
int hf_rules_status(const struct hf_rule_totals *totals);

#endif
