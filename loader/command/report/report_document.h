/*
 * The document that `homefree report --json` prints and the HTML page contains; homefree-report(1)
 * describes it. No state; one thread.
 */
#ifndef HF_LOADER_COMMAND_REPORT_REPORT_DOCUMENT_H
#define HF_LOADER_COMMAND_REPORT_REPORT_DOCUMENT_H

#include "loader/command/report/report_compare.h"

/* `comparison`: NULL, or what becomes the member "compare". */
void hf_report_document_write(FILE *out, const struct hf_merged *merged,
                              const struct hf_comparison *comparison);

#endif
