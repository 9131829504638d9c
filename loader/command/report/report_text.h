/*
 * A report on a terminal: a sentence, findings by allocator and freeing object with the worst
 * first, who frees whose blocks, what changed, and what to do. No state; one thread.
 */
#ifndef HF_LOADER_COMMAND_REPORT_REPORT_TEXT_H
#define HF_LOADER_COMMAND_REPORT_REPORT_TEXT_H

#include "loader/command/report/report_compare.h"

/* `comparison`: NULL, or what changed. */
void hf_report_text_print(FILE *out, const struct hf_merged *merged,
                          const struct hf_comparison *comparison);

#endif
