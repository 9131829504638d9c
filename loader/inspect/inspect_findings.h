/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of inspect only: the rules, applied to what the passes over one file
 * collected. No locks; one thread uses one inspection.
 */
#ifndef HOMEFREE_LOADER_INSPECT_INSPECT_FINDINGS_H
#define HOMEFREE_LOADER_INSPECT_INSPECT_FINDINGS_H

#include "loader/inspect/inspect_gather.h"

/* Applies the rules to what was collected. No memory left: `out_of_memory` is set. */
void hf_gather_find(struct hf_gather *gather, const struct hf_inspect_versions *versions);

/* Adds the finding of a file for another machine, which was not read any further. */
void hf_gather_find_machine(struct hf_gather *gather, const char *why);

#endif
