/*
 * Rules and findings, for every subcommand that has them: how `--rules` lists a table of rules, how
 * findings are shown, counted, and turned into an exit status. No state.
 */
#ifndef HF_LOADER_COMMAND_RULES_H
#define HF_LOADER_COMMAND_RULES_H

#include "loader/command/json.h"
#include "loader/inspect/inspect.h"

#include <stdio.h>

#define HF_RULES_MAX 32

struct hf_rule_table {
    const char *command; /* "inspect": the subcommand, and the name of its document (json.h) */
    unsigned format;     /* of the document */
    const struct hf_rule_text *rules;
    size_t count; /* at most HF_RULES_MAX */
};

/* Prints the table for a person, or as a document "<command> rules". Result: an exit status. */
int hf_rules_list(const char *who, const struct hf_rule_table *table, bool as_json);

/* ---- findings ------------------------------------------------------------------------------- */

struct hf_finding {
    size_t rule; /* its row in the table */
    const char *message;
    const char *const *names;  /* what was found: the first ones */
    size_t names_count, count; /* how many are in `names`, and how many there are */
    bool in_message;           /* the message has the names in it already */
};

/* The findings about one file or process. */
struct hf_findings {
    const struct hf_rule_table *table;
    size_t count;
    struct hf_finding (*get)(const void *context, size_t index);
    const void *context;
    size_t name_max; /* longer names are cut in the table; 0: none are */
};

/* What was found so far, and what could not be looked at. */
struct hf_rule_totals {
    size_t failed, severities[HF_SEVERITY_ERROR + 1];
    bool found[HF_RULES_MAX]; /* the rules that were */
};

void hf_findings_add(struct hf_rule_totals *totals, const struct hf_findings *findings);

/* Prints a line for each, the gravest first. */
void hf_findings_print(FILE *out, const struct hf_findings *findings, bool coloured);

/* Prints what to do about all that was found. */
void hf_findings_remedies(FILE *out, const struct hf_rule_table *table,
                          const struct hf_rule_totals *totals);

/* Writes the member "findings" of the open object. */
void hf_findings_write(struct hf_json *json, const struct hf_findings *findings);

/* Writes four members of the open object: failed, errors, warnings, notes. */
void hf_rules_totals(struct hf_json *json, const struct hf_rule_totals *totals);

/* HF_EXIT_FAILED, HF_EXIT_FINDINGS (errors and warnings) or HF_EXIT_CLEAN. */
int hf_rules_status(const struct hf_rule_totals *totals);

#endif
