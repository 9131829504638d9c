/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of places: the function, file and line, looked up in the objects' files on this machine. A
 * file counts only if its build id is the recorded one. Lines need libdw (libdw.h); functions come
 * from the symbol tables where that is missing.
 *
 * Constraint: the paths come from a report, and the files may be damaged or anything else. Only
 * regular files are opened.
 *
 * Owns: nothing between calls. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_REPORT_PLACE_NAMES_H
#define HOMEFREE_LOADER_COMMAND_REPORT_PLACE_NAMES_H

#include "loader/command/report/merged.h"

/* Sets the names of all places. */
void hf_place_names_find(struct hf_merged *merged);

#endif
