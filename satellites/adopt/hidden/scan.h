/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the references to given addresses in all code of a shared object, and decodes only
 * functions in which bytes look like one.
 *
 * The file is hostile; see image.h. Bytes outside of functions cannot be decoded with certainty: if
 * they look like a reference, they are reported as one.
 *
 * Owns: nothing. Uses malloc. One thread at a time.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_SCAN_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_SCAN_H

#include "satellites/adopt/hidden/functions.h"
#include "satellites/adopt/hidden/references.h"
#include "satellites/adopt/hidden/targets.h"

/* Visits the references to the targets, in the order of their places. Result: 0, -ENOMEM, or
 * -ENOTSUP: there is code that cannot be decoded, at `*where`. */
int hf_scan(const struct hf_references *references, const struct hf_functions *functions,
            const struct hf_targets *targets, hf_scan_visitor *visit, void *context,
            uint64_t *where);

#endif
