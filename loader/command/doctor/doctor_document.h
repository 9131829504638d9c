/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A record as a part of the document that `homefree doctor --json` prints, and from which
 * python/homefree/command/doctor_text.py makes the text; homefree-doctor(1) describes it. No state;
 * one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_DOCUMENT_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_DOCUMENT_H

#include "loader/command/doctor/doctor_record.h"
#include "loader/command/rules.h"

/* The rules of loader/record/process_record.def, and the format of the document. */
extern const struct hf_rule_table hf_doctor_table;

/* Writes the record as one object of an array, and adds its findings to the totals. */
void hf_doctor_write_json(struct hf_json *json, const struct hf_record *record,
                          struct hf_rule_totals *totals);

#endif
