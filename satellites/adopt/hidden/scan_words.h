/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scan of targets.h's addresses where several instructions form one. Only for hf_scan(), whose
 * rules are its own (scan.h). Owns nothing.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_SCAN_WORDS_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_SCAN_WORDS_H

#include "satellites/adopt/hidden/image.h"
#include "satellites/adopt/hidden/targets.h"

/* Visits the references to the targets, as hf_scan() does, with its results. */
int hf_scan_words(const struct hf_image *image, const struct hf_functions *functions,
                  const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
                  uint64_t *where);

#endif
