/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Begins and ends the diagnosis of a process. diagnosis.c has the constructor and the destructor.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_DIAGNOSIS_H
#define HOMEFREE_ALLOC_DIAGNOSE_DIAGNOSIS_H

#include "alloc/diagnose/report_format.h"

/* Writes down how the process ends, and prints the summary, once. Async-signal-safe. */
void hf_diagnose_end(enum hf_report_end end, int status);

/* Does without system calls that the program does not make itself, because it is about to forbid
 * some. What is needed for the end is opened and asked now. */
void hf_diagnose_confine(void);

/* Ends the process at once, as _exit(2) does. */
void hf_diagnose_leave(int status) __attribute__((noreturn));

#endif
