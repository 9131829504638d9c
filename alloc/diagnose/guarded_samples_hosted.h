/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pool of guarded samples (guarded_samples.h) as a hosted allocator (owner/hosted.h): what
 * calls that come from inside libhomefree do with its blocks. Owns a constant table.
 */
#ifndef HOMEFREE_ALLOC_DIAGNOSE_GUARDED_SAMPLES_HOSTED_H
#define HOMEFREE_ALLOC_DIAGNOSE_GUARDED_SAMPLES_HOSTED_H

#include "alloc/owner/hosted.h"

extern const struct hf_hosted hf_guarded_hosted __attribute__((visibility("hidden")));

#endif
