/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules and findings, for every subcommand that has them: lists a table of rules for `--rules`,
 * prints and counts findings, and derives the exit status. State: where the page of findings is.
 * One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_RULES_H
#define HOMEFREE_LOADER_COMMAND_RULES_H

#include "loader/command/json.h"
#include "loader/inspect/inspect.h"

#include <stdio.h>

#define HF_RULES_MAX 64

struct hf_rule_table {
    const char *command; /* "inspect": the subcommand, and the name of its document (json.h) */
    unsigned format;     /* format version of the document */
    const struct hf_rule_text *rules;
    size_t count; /* at most HF_RULES_MAX */
};

/* The option --rules, a bool in the request, as a row of the subcommand's options (arguments.h). */
#define HF_RULES_ARGUMENT \
    HF_FLAG_ARGUMENT("rules", rules, "list the rules: what each finds, why it matters, what to do")

/* The page that explains findings (docs/findings.py makes it), which is told before anything is
 * written; NULL: there is none, and findings lead nowhere. */
void hf_rules_set_page(const char *path);

/* Writes the member "help" of the open object: the address of the rule's section, or null. */
void hf_rules_write_help(struct hf_json *json, const struct hf_rule_table *table, const char *rule);

/* Prints the table as text, or as a document "<command> rules". Returns an exit status. */
int hf_rules_list(const char *who, const struct hf_rule_table *table, bool as_json);

/* ---- findings ------------------------------------------------------------------------------- */

/* Totals of the findings and of the files or processes that could not be examined. */
struct hf_rule_totals {
    size_t failed, severities[HF_SEVERITY_ERROR + 1];
    bool found[HF_RULES_MAX]; /* rules that had findings */
};

/* Writes a finding, whose rule is one of the table's, as an element of the open array. */
void hf_rules_write(struct hf_json *json, const struct hf_rule_table *table,
                    const struct hf_inspection_finding *finding);

void hf_rules_count(struct hf_rule_totals *totals, const struct hf_rule_table *table, size_t rule);

/* Writes four members of the open object: failed, errors, warnings, notes. */
void hf_rules_totals(struct hf_json *json, const struct hf_rule_totals *totals);

/* HF_EXIT_FAILED, HF_EXIT_FINDINGS (errors and warnings) or HF_EXIT_CLEAN. */
int hf_rules_status(const struct hf_rule_totals *totals);

#endif
