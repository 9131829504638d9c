/*
 * A report in other forms: folded stacks for flame graphs, and a page for a browser. No state; one
 * thread.
 */
#ifndef HF_LOADER_COMMAND_REPORT_REPORT_EXPORTS_H
#define HF_LOADER_COMMAND_REPORT_REPORT_EXPORTS_H

#include "loader/command/report/report_compare.h"

/*
 * Writes a line for each finding, `rule;frame;frame count`, as flame graph tools read them: the
 * rule, then the allocating stack from the outermost frame to the function that was called, then
 * the freeing stack in the same way behind a frame "-- freed by --", or that of an access behind
 * "-- accessed by --".
 */
void hf_report_folded_write(FILE *out, const struct hf_merged *merged);

/* Writes the page: the template with the document in it. */
void hf_report_html_write(FILE *out, const struct hf_merged *merged,
                          const struct hf_comparison *comparison);

#endif
