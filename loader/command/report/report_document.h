/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The document that `homefree report --json` prints, that the page contains, and from which
 * python/homefree/command/ makes the text; homefree-report(1) describes it. No state; one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_REPORT_DOCUMENT_H
#define HOMEFREE_LOADER_COMMAND_REPORT_REPORT_DOCUMENT_H

#include "loader/command/report/merged.h"

#include <stdbool.h>
#include <stdio.h>

/* How much of a report a document has. What is left out would take longer to write and to read than
 * all the rest. */
struct hf_document_form {
    bool compact;  /* on one line */
    bool timeline; /* else empty */
    bool brief; /* of findings only what is compared: the calls, and the innermost Python frame */
    size_t findings;
};

/* For people and programs: all of it, a line for each value. */
extern const struct hf_document_form hf_document_whole;

void hf_report_document_write(FILE *out, const struct hf_merged *merged,
                              const struct hf_document_form *form);

#endif
