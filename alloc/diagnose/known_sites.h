/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Known sites: the allocating places of the findings in an earlier report (`--sites`). What a later
 * run allocates there is remembered with its stack from the first block on; where the finding was
 * an access, it gets a guard page, too (guarded_samples.h).
 *
 * Read once, while the process starts; asking is for any thread, and takes no lock.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_KNOWN_SITES_H
#define HOMEFREE_ALLOC_DIAGNOSE_KNOWN_SITES_H

#include "alloc/diagnose/report_format.h"

/* Reads a report: a file, or the files in a directory. It may be cut short, damaged or hostile;
 * what is wrong in it is left out. Returns 0 or a negative errno; -ENOEXEC if there is no report of
 * this version. Allocates nothing. */
int hf_known_sites_read(const char *path);

enum hf_known {
    HF_UNKNOWN,
    HF_KNOWN,
    HF_KNOWN_ACCESSED /* its blocks were accessed wrongly, rather than freed wrongly */
};

/* Whether a place is known. offset: the return address in the object; of `object`, the build id is
 * compared. */
enum hf_known hf_known_site(const char *path, uint64_t offset,
                            const struct hf_report_object *object);

#endif
