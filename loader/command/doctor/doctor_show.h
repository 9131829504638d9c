/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows a record as a table and as part of a JSON document. No state; one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_SHOW_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_SHOW_H

#include "loader/command/doctor/doctor_record.h"
#include "loader/command/rules.h"

/* The rules of loader/record/process_record.def, and the format of the document. */
extern const struct hf_rule_table hf_doctor_table;

/* The findings in a record, which must outlive the result. */
struct hf_findings hf_doctor_findings(const struct hf_record *record);

/* `all` shows every object, not only those that differ from most. */
void hf_doctor_print(FILE *out, const struct hf_record *record, bool all, bool coloured);

/* Writes the record as one object of an array. */
void hf_doctor_write_json(struct hf_json *json, const struct hf_record *record);

#endif
