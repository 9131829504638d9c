/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads what a running process has recorded until now.
 *
 * A diagnosed process stores its records into a mapped file, so they can be read at any time and
 * need nothing of the process. A forked child that has found nothing yet keeps them in its memory,
 * where they are read if this command may read it.
 *
 * Owns: nothing between calls. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_REPORT_LIVE_H
#define HOMEFREE_LOADER_COMMAND_REPORT_REPORT_LIVE_H

#include "loader/command/live/live_process.h"
#include "loader/command/report/merged.h"

/*
 * Reads the process's records into `merged`, whose names will be looked up in the files that the
 * process sees; it must stay open until then. Returns HF_EXIT_NONE, or HF_EXIT_FAILED after one
 * line by `who`.
 */
int hf_report_read_live(const char *who, struct hf_merged *merged,
                        const struct hf_live_process *process);

#endif
