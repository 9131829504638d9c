/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where calls lead, in code in which several instructions form an address (hf_code.effect).
 *
 * The file is hostile; see image.h. Owns: nothing. Any thread.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_LINKAGE_CALLS_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_LINKAGE_CALLS_H

#include "satellites/adopt/hidden/functions.h"

/* The slot from which an entry of a procedure linkage table at `address` loads; 0 if none. */
uint64_t hf_call_slot(const struct hf_image *image, uint64_t address);

/* Whether a call does not return, as far as one can see. */
bool hf_call_never_returns(const struct hf_image *image, const struct hf_functions *functions,
                           uint64_t target);

#endif
