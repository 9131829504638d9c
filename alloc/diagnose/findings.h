/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings: records what is wrong with a free, once for each rule and pair of sites, and counts
 * repetitions. The first one takes the stack of the free, and has later blocks of the allocating
 * site remember theirs (stacks.h). In strict mode it ends the process.
 *
 * Any thread, at any stage. Takes the records' lock, allocates nothing, preserves errno.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_FINDINGS_H
#define HOMEFREE_ALLOC_DIAGNOSE_FINDINGS_H

#include "alloc/diagnose/event.h"

#include <stdbool.h>

void hf_finding(const struct hf_event *event);

/* Severities, as report_rules.def names them. */
enum hf_report_severity { HF_REPORT_NOTE, HF_REPORT_WARNING, HF_REPORT_ERROR };

/* Findings of a severity so far, repetitions included. */
uint64_t hf_findings_count(enum hf_report_severity severity);

/* Number of findings recorded. Lock-free; only grows, but in a forked child. */
uint32_t hf_findings_number(void);

/* A recorded finding, by its place in their order; NULL: there are fewer. Under the records' lock.
 */
const struct hf_report_finding *hf_findings_at(uint32_t index);

/* The name of a finding's rule; static texts. */
const char *hf_findings_rule(uint32_t rule, const char **remedy, enum hf_report_severity *severity);

/* The name and the path of a finding's allocator, which stay valid; NULL: unknown. Under the lock.
 */
void hf_findings_allocator(uint32_t allocator, const char **name, const char **object);

/* Mode and options, for the whole of diagnose/. Set once, while the process starts. */
struct hf_diagnose {
    enum hf_report_mode mode;
    char directory[1024]; /* of the report; "" if there is none */
    bool leaks;           /* are looked for at the end */
};
extern struct hf_diagnose hf_diagnose __attribute__((visibility("hidden")));

/* For the child of fork(2). */
void hf_findings_in_child(void);

#endif
