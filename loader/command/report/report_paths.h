/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the reports that PATHs name: files, and directories with all that lies below them, also
 * those of several machines. A file that is found twice is read once. A file that cannot be read is
 * a line on stderr, and counts as left out.
 *
 * Owns: nothing between calls. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_REPORT_PATHS_H
#define HOMEFREE_LOADER_COMMAND_REPORT_REPORT_PATHS_H

#include "loader/command/report/merged.h"

/* Reads and merges everything, and sorts it. Returns whether there was anything to read. */
bool hf_report_read(struct hf_merged *merged, char *const *paths, size_t count);

#endif
