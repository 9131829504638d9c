/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The document of the heap of a running process: its blocks by size, and each one; where the heap
 * lies, and which pages of other allocators homefree knows. Nothing runs in the process. No state;
 * one thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_MEMORY_MEMORY_BLOCKS_H
#define HOMEFREE_LOADER_COMMAND_MEMORY_MEMORY_BLOCKS_H

#include "loader/command/live/live_process.h"

/* Writes the document to a file; if `output` is NULL, for Python (hf_python_document), with every
 * block as a line in front of it. `each`: with every block. Returns an exit status, after one line
 * by `who` if that is not HF_EXIT_CLEAN. */
int hf_memory_blocks(const char *who, const struct hf_live_process *process, bool each,
                     const char *output, int *document);

#endif
