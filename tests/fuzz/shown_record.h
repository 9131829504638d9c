/*
 * What the targets of `homefree doctor` check of a record.
 */
#ifndef HOMEFREE_TESTS_FUZZ_SHOWN_RECORD_H
#define HOMEFREE_TESTS_FUZZ_SHOWN_RECORD_H

#include "loader/command/doctor/doctor_record.h"

/* Applies the rules and writes the record's document, which must be JSON. The record's `process`
 * says where files are looked for. */
void fuzz_show_record(struct hf_record *record);

#endif
