/*
 * What `--rules` prints, for every command that has rules. No state.
 */
#ifndef HF_LOADER_COMMAND_RULES_H
#define HF_LOADER_COMMAND_RULES_H

#include "inspect.h"

#include <stdio.h>

/* The rules, for a person, or as a document of that name and format (json.h). */
void hf_rules_list(FILE *out, bool as_json, const char *document, unsigned format,
                   const struct hf_rule_text *rules, size_t count);

#endif
