/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The unwind table of a shared object (.eh_frame; Linux Standard Base, "Exception Frames"): where
 * its functions begin and end. Compilers write it for all code, and strip keeps it.
 *
 * The file is hostile; see image.h. Owns nothing, allocates nothing.
 */
#ifndef HOMEFREE_SATELLITES_ADOPT_HIDDEN_UNWIND_TABLE_H
#define HOMEFREE_SATELLITES_ADOPT_HIDDEN_UNWIND_TABLE_H

#include "satellites/adopt/hidden/image.h"

/* False ends the visit. */
typedef bool hf_unwind_visitor(uint64_t address, uint64_t size, void *context);

/* Visits each function of the table, in no order. Result: 0; -ENOENT if there is no table;
 * -ENOEXEC if it is damaged or has a form that compilers do not write. */
int hf_unwind_visit(const struct hf_image *image, hf_unwind_visitor *visit, void *context);

#endif
