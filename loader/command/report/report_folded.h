/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A report as folded stacks, from which flame graphs are drawn. No state; one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_REPORT_FOLDED_H
#define HOMEFREE_LOADER_COMMAND_REPORT_REPORT_FOLDED_H

#include "loader/command/report/merged.h"

#include <stdio.h>

/*
 * Writes a line for each finding, `rule;frame;frame count`, as flame graph tools read them: the
 * rule, then the allocating stack from the outermost frame to the function that was called, then
 * the freeing stack in the same way behind a frame "-- freed by --", or that of an access behind
 * "-- accessed by --".
 */
void hf_report_folded_write(FILE *out, const struct hf_merged *merged);

#endif
