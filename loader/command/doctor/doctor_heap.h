/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shows the heap of a running process: its blocks by size, or each one. Nothing runs in the
 * process. No state; one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_HEAP_H
#define HOMEFREE_LOADER_COMMAND_DOCTOR_DOCTOR_HEAP_H

#include "loader/command/live/live_process.h"

/* Writes the table, or a JSON document, to a file. `each`: with every block. Returns an exit
 * status, after one line by `who` if that is not HF_EXIT_CLEAN. */
int hf_doctor_heap(const char *who, const char *output, const struct hf_live_process *process,
                   bool json, bool each);

#endif
