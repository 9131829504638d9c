/*
 * Showing a record: as a table, and as part of a JSON document. No state.
 */
#ifndef HF_LOADER_COMMAND_DOCTOR_SHOW_H
#define HF_LOADER_COMMAND_DOCTOR_SHOW_H

#include "doctor_record.h"
#include "json.h"

/* "SIGSEGV", …; "a signal" for those without a name. */
const char *hf_doctor_signal(int number);

/* `all`: every object, not only those that are not like the others. */
void hf_doctor_print(FILE *out, const struct hf_record *record, bool all, bool coloured);

/* What to do about the findings of all records that were printed; `rules` says which. */
void hf_doctor_print_remedies(FILE *out, const bool rules[HF_DOCTOR_RULE_COUNT]);

/* One object of an array. */
void hf_doctor_write_json(struct hf_json *json, const struct hf_record *record);

#endif
